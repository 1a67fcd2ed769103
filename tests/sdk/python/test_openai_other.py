"""Embeddings, models, files and speech by OpenAI's SDK: base64, uploads and binary answers."""

import io

from openai import NotFoundError

from samples import user
from twice import KEY, Twice, openai

MODEL = "text-embedding-3-small"
TEXTS = ["first", "second ünïcode", "third"]


def test_embeddings(twice):
    answer = twice.openai(lambda client: client.embeddings.create(model=MODEL, input=TEXTS))
    # The SDK asks for base64 by itself and decodes it.
    assert twice.received[0].json()["encoding_format"] == "base64"
    assert [len(item.embedding) for item in answer.data] == [1536] * 3
    assert all(isinstance(number, float) for number in answer.data[0].embedding)


def test_embeddings_as_numbers(twice):
    def run(client):
        return client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float", dimensions=64)

    assert [len(item.embedding) for item in twice.openai(run).data] == [64] * 3


def test_base64_and_numbers_agree(twice):
    def run(client):
        return [
            client.embeddings.create(model=MODEL, input="same", dimensions=8, **form).data[0].embedding
            for form in ({}, {"encoding_format": "float"})
        ]

    packed, plain = twice.openai(run)
    assert all(abs(a - b) < 1e-6 for a, b in zip(packed, plain, strict=True))


def test_models(mock, gate_with):
    def run(client):
        return list(client.models.list()), client.models.retrieve("gpt-4.1")

    models, one = Twice(mock, gate_with(only="openai")).openai(run)
    assert "gpt-4.1" in [model.id for model in models] and one.id == "gpt-4.1"


def test_models_of_several_providers(mock, gate):
    with openai(mock.url) as client:
        own = {model.id for model in client.models.list()}
    with openai(gate.url) as client:
        listed = {model.id for model in client.models.list()}
        # Whatever is listed can be asked for.
        answer = client.chat.completions.create(model="openai/gpt-4.1", messages=[user("prefixed")])
    others = listed - own
    assert own < listed and all(name.startswith("anthropic/claude-") for name in others)
    assert answer.model == "gpt-4.1"
    # The caller's key is for the provider of its protocol alone.
    for request in mock.requests():
        if request.header("anthropic-version"):
            assert KEY not in str(request.headers)


def test_a_model_that_does_not_exist(twice):
    error = twice.openai(lambda client: client.models.retrieve("no-such-model"))
    assert isinstance(error, NotFoundError) and error.code == "model_not_found"


def test_file_upload_and_download(twice):
    data = bytes(range(256)) * 300 + b"\r\n--almost-a-boundary\r\n"

    def run(client):
        file = client.files.create(file=("a ü.jsonl", io.BytesIO(data), "application/jsonl"), purpose="batch")
        return file, client.files.content(file.id).read()

    file, content = twice.openai(run)
    assert file.bytes == len(data) and file.purpose == "batch"
    assert content == data


def test_a_file_that_does_not_exist(twice):
    error = twice.openai(lambda client: client.files.content("file-none").read())
    assert isinstance(error, NotFoundError) and "file-none" in error.message


def test_speech(twice, tmp_path):
    said = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": "hello"}

    def run(client):
        with client.audio.speech.with_streaming_response.create(**said) as answer:
            streamed = b"".join(answer.iter_bytes())
            kind = answer.headers["content-type"]
        whole = client.audio.speech.create(**said, response_format="wav")
        whole.write_to_file(tmp_path / "said.wav")
        return kind, streamed, whole.read()

    kind, streamed, whole = twice.openai(run)
    assert kind == "audio/mpeg" and streamed == whole and len(whole) > 1000
    assert (tmp_path / "said.wav").read_bytes() == whole
