"""A provider's errors reach the SDK of the other vendor as its own, and it does what it does about its own."""

import asyncio

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest

from samples import user
from test_streams_that_break import read
from tongues import BOTH, chat, message
from twice import anthropic, openai

SDK = {"chat": openai_sdk, "message": anthropic_sdk}
CLIENTS = {"chat": openai_sdk.AsyncOpenAI, "message": anthropic_sdk.AsyncAnthropic}


@pytest.mark.parametrize(
    "which, status, name, becomes, kind",
    [
        ("chat", 400, "BadRequestError", 400, "invalid_request_error"),
        ("chat", 403, "PermissionDeniedError", 403, "permission_error"),
        ("chat", 404, "NotFoundError", 404, "not_found_error"),
        ("chat", 413, "APIStatusError", 413, "invalid_request_error"),
        ("chat", 429, "RateLimitError", 429, "rate_limit_error"),
        ("chat", 500, "InternalServerError", 500, "server_error"),
        ("chat", 503, "InternalServerError", 503, "server_error"),
        # OpenAI's clients know no 529.
        ("chat", 529, "InternalServerError", 503, "server_error"),
        ("message", 400, "BadRequestError", 400, "invalid_request_error"),
        ("message", 403, "PermissionDeniedError", 403, "permission_error"),
        ("message", 404, "NotFoundError", 404, "not_found_error"),
        ("message", 413, "ContentTooLargeError", 413, "request_too_large"),
        ("message", 429, "RateLimitError", 429, "rate_limit_error"),
        ("message", 500, "InternalServerError", 500, "api_error"),
        ("message", 503, "ServiceUnavailableError", 503, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_every_status_is_raised_as_the_sdks_own(mock, translator, which, status, name, becomes, kind, streams):
    mock.script(str(status))
    connect, call = BOTH[which]
    with connect(translator.url, max_retries=0) as client, pytest.raises(Exception) as raised:
        call(client, stream=streams)
    error = raised.value
    assert type(error) is getattr(SDK[which], name) and error.status_code == becomes
    assert "the script says" in str(error)
    if which == "chat":
        assert error.type == kind and error.code and "the script says" in error.body["message"]
    else:
        assert error.body["type"] == "error" and error.body["error"]["type"] == kind
    assert "x-sluicegate-error" not in error.response.headers, "it is the provider's"
    assert mock.arrived() == 1


def test_what_the_provider_refuses_is_said_in_its_words(mock, translator):
    with openai(translator.url) as client, pytest.raises(openai_sdk.BadRequestError) as raised:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,not*base64"}}
        chat(client, messages=[user([picture])])
    assert "invalid base64 data" in raised.value.message and raised.value.type == "invalid_request_error"
    with anthropic(translator.url) as client, pytest.raises(anthropic_sdk.BadRequestError) as raised:
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not*base64"}}
        message(client, messages=[user([picture])])
    assert "base64" in raised.value.body["error"]["message"]
    assert raised.value.body["error"]["type"] == "invalid_request_error"
    assert mock.stats()["by_status"] == {"400": 2}


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
def test_429_is_tried_again_after_the_hint(mock, translator, which, streams):
    mock.script("429(retry-after=1) 2x; ok")
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        answer = call(client, stream=streams)
        assert list(answer) if streams else answer.id
    assert mock.stats()["by_status"] == {"429": 2, "200": 1}
    assert len({request.body for request in mock.requests()}) == 1


@pytest.mark.parametrize("which", BOTH)
def test_retries_end_and_the_hint_is_there_to_read(mock, translator, which):
    mock.script("429(retry-after=1)")
    connect, call = BOTH[which]
    with connect(translator.url, max_retries=1) as client, pytest.raises(SDK[which].RateLimitError) as raised:
        call(client)
    assert raised.value.response.headers["retry-after"] == "1"
    assert mock.arrived() == 2


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("failure", ["503", "529", "reset"])
def test_a_provider_that_is_overloaded_or_gone_is_tried_again(mock, translator, which, streams, failure):
    mock.script(f"{failure} 1x; ok")
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        answer = call(client, stream=streams)
        assert list(answer) if streams else answer.id
    assert mock.stats()["by_status"] == {failure: 1, "200": 1}


@pytest.mark.parametrize("which", BOTH)
def test_an_error_within_a_stream(mock, translator, which):
    mock.script("error")
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        events, error = read(call(client, stream=True))
    assert events and isinstance(error, SDK[which].APIError), repr(error)
    assert "the script says 500" in str(error)
    assert not has_ended(which, events)
    assert mock.arrived() == 1, "what has begun is not tried again"


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("script", ["cut", "stall 300ms; ok", "garbage"])
def test_a_stream_that_breaks(mock, translator, which, script):
    mock.script(script)
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        events, error = read(call(client, stream=True))
    assert events, "what had come before is passed on"
    assert isinstance(error, SDK[which].APIError), repr(error)
    assert "provider" in str(error)
    assert not has_ended(which, events)


def has_ended(which, events):
    if which == "chat":
        return any(choice.finish_reason for chunk in events for choice in chunk.choices)
    return any(event.type in ("message_delta", "message_stop") for event in events)


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("script", ["cut", "error"])
def test_a_stream_that_breaks_under_a_helper(mock, translator, which, script):
    mock.script(script)
    prompt = [{"role": "user", "content": "helper"}]
    connect, _ = BOTH[which]
    with connect(translator.url) as client, pytest.raises(SDK[which].APIError):
        if which == "chat":
            with client.chat.completions.stream(model="claude-sonnet-4-6", messages=prompt) as stream:
                stream.get_final_completion()
        else:
            with client.messages.stream(model="gpt-4.1", max_tokens=400, messages=prompt) as stream:
                stream.get_final_message()


@pytest.mark.parametrize("which", BOTH)
async def test_a_stream_that_breaks_for_asynchronous_callers(mock, translator, which):
    mock.script("cut")
    connect, call = BOTH[which]
    events = []
    async with connect(translator.url, CLIENTS[which]) as client:
        with pytest.raises(SDK[which].APIError, match="provider"):
            async for event in await call(client, stream=True):
                events.append(event)
    assert events


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_caller_who_leaves_frees_the_call_of_the_provider(mock, translator, which, streams):
    # A stream hangs in its middle, a plain call before its answer.
    mock.script("stall" if streams else "hang!")
    connect, call = BOTH[which]

    async def ask(client):
        answer = await call(client, stream=streams)
        came.set()
        async for _ in answer:
            came.set()

    came = asyncio.Event()
    async with connect(translator.url, CLIENTS[which]) as client:
        task = asyncio.create_task(ask(client))
        if streams:
            await came.wait()
        while mock.stats()["in_flight"] == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        mock.comes_to(lambda: mock.hang_ups() == 1, within=1)
    assert mock.stats()["in_flight"] == 0


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("script", ["cut", "garbage"])
def test_a_plain_answer_that_is_broken_is_an_error_with_a_status(mock, translator, which, script):
    mock.script(script)
    connect, call = BOTH[which]
    with connect(translator.url, max_retries=0) as client, pytest.raises(SDK[which].InternalServerError) as raised:
        call(client)
    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-sluicegate-error"] == "upstream_error"


@pytest.mark.parametrize("which", BOTH)
def test_a_key_that_the_provider_refuses_is_not_the_callers_fault(mock, translator, which):
    mock.limits(require_key="another")
    connect, call = BOTH[which]
    with connect(translator.url) as client, pytest.raises(SDK[which].InternalServerError) as raised:
        call(client)
    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-sluicegate-error"] == "upstream_credentials"
    assert "sk-gate" not in str(raised.value) and mock.arrived() == 1


@pytest.mark.parametrize("which", BOTH)
def test_without_a_key_of_its_own_the_gate_asks_nobody(mock, gate_with, which):
    # A provider on this machine may need no key; one elsewhere does.
    own, other = ("openai", "anthropic") if which == "chat" else ("anthropic", "openai")
    gate = gate_with(only=own, config=f'[providers.{other}]\nbase_url = "https://{other}.test/v1"\n')
    connect, call = BOTH[which]
    with connect(gate.url) as client, pytest.raises(SDK[which].AuthenticationError) as raised:
        call(client)
    assert raised.value.response.headers["x-sluicegate-error"] == "no_credentials"
    assert mock.arrived() == 0
