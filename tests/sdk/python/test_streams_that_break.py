"""A stream that breaks is an error of the SDK and never looks like the end of an answer."""

import anthropic
import openai
import pytest

from calls import ALL, BOTH, chat, message, respond
from twice import KEY, anthropic as connect_anthropic, openai as connect_openai


def read(stream):
    """What came of a stream, and the error that ended it."""
    events = []
    try:
        for event in stream:
            events.append(event)
    except Exception as error:  # noqa: BLE001 - the test says which one it has to be
        return events, error
    return events, None


def test_an_error_event_of_the_provider(twice):
    twice.mock.script("error")
    for run, call, base in (
        (twice.openai, chat, openai.APIError),
        (twice.anthropic, message, anthropic.APIError),
    ):
        events, error = run(lambda client, call=call: read(call(client, stream=True)))
        assert events and isinstance(error, base)
        assert "the script says 500" in str(error)


def test_an_error_event_of_responses(twice):
    twice.mock.script("error")
    events, error = twice.openai(lambda client: read(respond(client, stream=True)))
    # OpenAI's SDK hands the provider's flat event on, and the gate leaves it as it is.
    assert error is None and events[-1].type == "error"
    assert "the script says 500" in events[-1].message


@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("script", ["cut", "stall 300ms; ok"])
def test_a_cut(mock, gate, which, script):
    mock.script(script)
    connect, call = ALL[which]
    with connect(gate.url, max_retries=0) as client:
        events, error = read(call(client, stream=True))
    assert events, "what had come before the cut is passed on"
    # The gate's own error, and not what the SDK makes of a connection that was lost.
    assert isinstance(error, (openai.APIError, anthropic.APIError)), repr(error)
    assert "provider" in str(error)
    if which == "chat":
        assert not any(choice.finish_reason for event in events for choice in event.choices)


@pytest.mark.parametrize("which", ["chat", "message", "respond"])
def test_a_cut_under_a_helper(mock, gate, which):
    mock.script("cut")
    prompt = [{"role": "user", "content": "helper"}]
    with connect_openai(gate.url) as client, connect_anthropic(gate.url) as claude:
        streams = {
            "chat": lambda: client.chat.completions.stream(model="gpt-4.1", messages=prompt),
            "respond": lambda: client.responses.stream(model="gpt-4.1", input=prompt),
            "message": lambda: claude.messages.stream(
                model="claude-sonnet-4-6", max_tokens=99, messages=prompt
            ),
        }
        finals = {
            "chat": "get_final_completion",
            "respond": "get_final_response",
            "message": "get_final_message",
        }
        with pytest.raises(Exception) as raised, streams[which]() as stream:
            getattr(stream, finals[which])()
    assert isinstance(raised.value, (openai.APIError, anthropic.APIError)), repr(raised.value)
    assert "provider" in str(raised.value)


@pytest.mark.parametrize("which", BOTH)
async def test_a_cut_for_asynchronous_callers(mock, gate, which):
    mock.script("cut")
    connect, call = BOTH[which]
    cls = openai.AsyncOpenAI if which == "chat" else anthropic.AsyncAnthropic
    events = []
    async with connect(gate.url, cls) as client:
        with pytest.raises((openai.APIError, anthropic.APIError), match="provider"):
            async for event in await call(client, stream=True):
                events.append(event)
    assert events


@pytest.mark.parametrize("which", BOTH)
def test_an_event_that_is_no_json_reaches_the_caller_as_it_is(twice, which):
    twice.mock.script("garbage")
    _, call = BOTH[which]
    run = twice.openai if which == "chat" else twice.anthropic
    # Usage is asked for, as the stream is of another length without.
    asks = {"stream_options": {"include_usage": True}} if which == "chat" else {}
    events, error = run(lambda client: read(call(client, stream=True, **asks)))
    assert events and type(error).__name__ == "JSONDecodeError"


def test_no_key_gets_into_an_error(mock, gate):
    mock.script("cut")
    with connect_openai(gate.url) as client:
        _, error = read(chat(client, stream=True))
    assert KEY not in str(error) and KEY not in gate.said()
