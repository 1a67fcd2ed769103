"""Messages and what belongs to them by Anthropic's SDK."""

import pytest
from anthropic import NotFoundError

from samples import PDF, PLACE, PNG, Weather, claude_tools, user
from twice import Twice, anthropic

MODEL = "claude-sonnet-4-6"
ASK = {"model": MODEL, "max_tokens": 1024}
TOOLS = claude_tools("weather", "news")


def results(message):
    """The user's turn that answers every call of `message`."""
    calls = [block for block in message.content if block.type == "tool_use"]
    return user([{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"} for call in calls])


def test_plain(twice):
    answer = twice.anthropic(
        lambda client: client.messages.create(system="be brief", messages=[user("plain")], **ASK)
    )
    assert answer.content[0].text and answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


def test_stream(twice):
    events = twice.anthropic(
        lambda client: list(client.messages.create(messages=[user("stream")], stream=True, **ASK))
    )
    assert events[0].type == "message_start" and events[-1].type == "message_stop"
    assert sum(event.type == "content_block_delta" for event in events) == 8


def test_stream_helper(twice):
    def run(client):
        with client.messages.stream(messages=[user("helper")], **ASK) as stream:
            return list(stream.text_stream), stream.get_final_message()

    texts, message = twice.anthropic(run)
    assert "".join(texts) == message.content[0].text and len(texts) == 8
    assert message.usage.output_tokens > 1


def test_tools_and_their_results(twice):
    def run(client):
        turns = [user("please use two tools")]
        first = client.messages.create(messages=turns, tools=TOOLS, **ASK)
        turns += [{"role": "assistant", "content": first.content}, results(first)]
        return first, client.messages.create(messages=turns, tools=TOOLS, **ASK)

    first, second = twice.anthropic(run)
    assert first.stop_reason == "tool_use" and [call.name for call in first.content] == ["weather", "news"]
    assert all(call.input["city"] for call in first.content)
    assert second.stop_reason == "end_turn"


def test_streamed_tools_and_their_results(twice):
    def run(client):
        turns = [user("please use two tools")]
        with client.messages.stream(messages=turns, tools=TOOLS, **ASK) as stream:
            kinds = [event.type for event in stream]
            first = stream.get_final_message()
        turns += [{"role": "assistant", "content": first.content}, results(first)]
        with client.messages.stream(messages=turns, tools=TOOLS, **ASK) as stream:
            return kinds, first, stream.get_final_message()

    kinds, first, second = twice.anthropic(run)
    assert "input_json" in kinds and [call.name for call in first.content] == ["weather", "news"]
    assert second.stop_reason == "end_turn"


@pytest.mark.parametrize("streams", [False, True])
def test_signed_thoughts_go_back_unaltered(twice, streams):
    asks = {**ASK, "max_tokens": 4096, "thinking": {"type": "adaptive"}, "tools": TOOLS}

    def ask(client, turns):
        if not streams:
            return client.messages.create(messages=turns, **asks)
        with client.messages.stream(messages=turns, **asks) as stream:
            return stream.get_final_message()

    def run(client):
        turns = [user("please use two tools")]
        first = ask(client, turns)
        turns += [{"role": "assistant", "content": first.content}, results(first)]
        return first, ask(client, turns)

    first, second = twice.anthropic(run)
    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    assert first.content[0].thinking and first.content[0].signature
    assert second.content[0].type == "thinking" and second.content[-1].type == "text"


def test_images_and_documents(twice):
    content = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        {"type": "text", "text": "what is this?", "cache_control": {"type": "ephemeral"}},
    ]
    answer = twice.anthropic(lambda client: client.messages.create(messages=[user(content)], **ASK))
    assert answer.content[0].text.startswith("I see 1 images and 1 documents.")


def test_structured_output(twice):
    answer = twice.anthropic(
        lambda client: client.messages.parse(messages=[user("parse")], output_format=Weather, **ASK)
    )
    assert isinstance(answer.parsed_output, Weather)


def test_a_schema_given_as_it_is(twice):
    form = {"format": {"type": "json_schema", "schema": PLACE}}
    answer = twice.anthropic(
        lambda client: client.messages.create(messages=[user("schema")], output_config=form, **ASK)
    )
    assert answer.content[0].text.startswith("{")
    assert twice.received[0].json()["output_config"] == form


def test_cached_prompts(twice):
    long = [{"type": "text", "text": "word " * 2000, "cache_control": {"type": "ephemeral"}}]

    def run(client):
        ask = lambda text: client.messages.create(system=long, messages=[user(text)], **ASK)  # noqa: E731
        return ask("one").usage, ask("two").usage

    first, second = twice.anthropic(run)
    assert first.cache_creation_input_tokens == second.cache_read_input_tokens > 1024


def test_count_tokens(twice):
    count = twice.anthropic(
        lambda client: client.messages.count_tokens(model=MODEL, messages=[user("count me")], tools=TOOLS)
    )
    assert count.input_tokens > 0


def test_models(mock, gate_with):
    def run(client):
        return [model.id for model in client.models.list()], client.models.retrieve(MODEL)

    models, one = Twice(mock, gate_with(only="anthropic")).anthropic(run)
    assert MODEL in models and one.id == MODEL


def test_models_of_several_providers(mock, gate):
    with anthropic(mock.url) as client:
        own = {model.id for model in client.models.list()}
    with anthropic(gate.url) as client:
        listed = {model.id for model in client.models.list()}
    others = listed - own
    assert own < listed and all(name.startswith("openai/") for name in others)


def test_a_model_that_does_not_exist(twice):
    error = twice.anthropic(lambda client: client.models.retrieve("no-such-model"))
    assert isinstance(error, NotFoundError) and error.body["error"]["type"] == "not_found_error"


def test_file_upload_and_download(twice):
    data = bytes(range(256)) * 300

    def run(client):
        file = client.files.upload(file=("a.pdf", data, "application/pdf"))
        return file, client.files.download(file.id).read()

    file, content = twice.anthropic(run)
    assert file.size_bytes == len(data) and content == data


def test_fields_and_headers_that_nobody_knows_reach_the_provider(twice):
    def run(client):
        return client.messages.create(
            messages=[user("new")],
            extra_body={"brand_new": {"é": [1.0, None]}},
            extra_headers={"anthropic-beta": "brand-new-2027-01-01", "x-brand-new": "yes"},
            **ASK,
        )

    assert twice.anthropic(run).content
    received = twice.received[0]
    assert received.json()["brand_new"] == {"é": [1.0, None]}
    assert received.header("anthropic-beta") == "brand-new-2027-01-01"
    assert received.header("x-brand-new") == "yes"


def test_an_oauth_bearer_stays_a_bearer(twice):
    answer = twice.anthropic(
        lambda client: client.messages.create(messages=[user("bearer")], **ASK),
        api_key=None,
        auth_token="token-of-the-caller",
    )
    assert answer.content
    assert twice.received[0].header("authorization") == "Bearer token-of-the-caller"
    assert twice.received[0].header("x-api-key") is None
