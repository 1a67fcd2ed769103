"""The provider's errors, as the SDKs raise them: the same class, status and body as without the gate."""

import pytest

from calls import BOTH, chat, message
from samples import user
from twice import told


def test_400_with_the_providers_words(twice):
    error = twice.openai(lambda client: client.chat.completions.create(model="gpt-4.1", messages=[]))
    assert type(error).__name__ == "BadRequestError"
    assert "empty array" in error.message and (error.code, error.param) == ("empty_array", "messages")
    assert "x-sluicegate-error" not in error.response.headers

    orphan = [user("hi"), {"role": "tool", "tool_call_id": "call_none", "content": "x"}]
    error = twice.openai(lambda client: client.chat.completions.create(model="gpt-4.1", messages=orphan))
    assert "must be a response to a preceding message" in error.message


def test_400_from_anthropic(twice):
    unsigned = [
        user("hi"),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "bm8="}]},
        user("go on"),
    ]
    error = twice.anthropic(
        lambda client: client.messages.create(model="claude-sonnet-4-6", max_tokens=9, messages=unsigned)
    )
    assert type(error).__name__ == "BadRequestError"
    assert "Invalid `signature`" in error.body["error"]["message"]
    assert error.request_id == error.body["request_id"]


@pytest.mark.parametrize("which", BOTH)
def test_401_is_the_providers_own(twice, which):
    twice.mock.limits(require_key="another")
    _, call = BOTH[which]
    error = (twice.openai if which == "chat" else twice.anthropic)(call)
    assert type(error).__name__ == "AuthenticationError" and "Incorrect API key" in str(error)
    assert twice.mock.arrived() == 1


def test_the_gates_own_key_is_not_the_callers_fault(mock, gate_with):
    mock.limits(require_key="another")
    for which, (connect, call) in BOTH.items():
        variable = "OPENAI_API_KEY" if which == "chat" else "ANTHROPIC_API_KEY"
        gate = gate_with(env={variable: "sk-stale-key-of-the-gate"})
        mock.reset()
        with connect(gate.url) as client, pytest.raises(Exception) as raised:
            call(client)
        assert raised.value.status_code == 502
        assert raised.value.response.headers["x-sluicegate-error"] == "upstream_credentials"
        assert "sk-stale" not in str(raised.value) and mock.arrived() == 1


def test_the_gates_key_replaces_the_callers(mock, gate_with):
    gate = gate_with(env={"OPENAI_API_KEY": "sk-gate-openai", "ANTHROPIC_API_KEY": "sk-gate-anthropic"})
    for connect, call in BOTH.values():
        with connect(gate.url) as client:
            call(client)
    first, second = mock.requests()
    assert first.header("authorization") == "Bearer sk-gate-openai"
    assert (second.header("x-api-key"), second.header("authorization")) == ("sk-gate-anthropic", None)


def test_404_from_the_provider_and_from_the_gate(twice):
    error = twice.openai(lambda client: client.moderations.create(input="x"))
    assert type(error).__name__ == "NotFoundError" and "Unknown request URL" in error.message

    gate = twice.gate.url
    from openai import NotFoundError, OpenAI

    with OpenAI(api_key="k", base_url=f"{gate}/nowhere") as client, pytest.raises(NotFoundError) as raised:
        chat(client)
    assert raised.value.code == "not_found"
    assert raised.value.response.headers["x-sluicegate-error"] == "not_found"


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, 503, 529])
def test_every_status_is_raised_as_it_is(twice, which, status):
    twice.mock.script(str(status))
    _, call = BOTH[which]
    error = (twice.openai if which == "chat" else twice.anthropic)(call, max_retries=0)
    assert error.status_code == status and "the script says" in str(error)
    assert twice.mock.arrived() == 1


@pytest.mark.parametrize("which", BOTH)
def test_429_is_tried_again_after_the_hint(mock, gate, which):
    mock.script("429(retry-after=1) 2x; ok")
    connect, call = BOTH[which]
    with connect(gate.url) as client:
        raw = call(client).model_dump()
        assert raw["id"]
    assert mock.stats()["by_status"] == {"429": 2, "200": 1}
    tries = [request.header("x-stainless-retry-count") for request in mock.requests()]
    assert tries == ["0", "1", "2"]
    # Each try is a call of its own, and the caller's body does not change on the way.
    assert len({request.body for request in mock.requests()}) == 1


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("status", [503, 529])
def test_an_overloaded_provider_is_tried_again(mock, gate, which, status):
    mock.script(f"{status} 1x; ok")
    connect, call = BOTH[which]
    with connect(gate.url) as client:
        assert call(client).id
    assert mock.stats()["by_status"] == {str(status): 1, "200": 1}


@pytest.mark.parametrize("which", BOTH)
def test_retries_end_and_the_hint_is_there_to_read(mock, gate, which):
    mock.script("429(retry-after=1)")
    connect, call = BOTH[which]
    with connect(gate.url, max_retries=1) as client, pytest.raises(Exception) as raised:
        call(client)
    assert type(raised.value).__name__ == "RateLimitError"
    assert raised.value.response.headers["retry-after"] == "1"
    assert mock.arrived() == 2


@pytest.mark.parametrize("which", BOTH)
def test_a_provider_that_resets_the_connection_is_tried_again(mock, gate, which):
    mock.script("reset 1x; ok")
    connect, call = BOTH[which]
    with connect(gate.url) as client:
        assert call(client).id
    assert mock.stats()["by_status"] == {"reset": 1, "200": 1}


@pytest.mark.parametrize("which", BOTH)
def test_a_plain_answer_that_is_cut_is_an_error_with_a_status(mock, gate, which):
    mock.script("cut")
    connect, call = BOTH[which]
    with connect(gate.url, max_retries=0) as client, pytest.raises(Exception) as raised:
        call(client)
    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-sluicegate-error"] == "upstream_error"


def test_errors_of_both_protocols_read_the_same_through_raw_responses(twice):
    twice.mock.script("403")

    def run(call):
        def raw(client):
            error = None
            try:
                call(client)
            except Exception as raised:  # noqa: BLE001
                error = raised
            return told(error), error.response.status_code, error.response.headers["content-type"]

        return raw

    assert twice.openai(run(chat))[1:] == (403, "application/json")
    assert twice.anthropic(run(message))[1:] == (403, "application/json")
