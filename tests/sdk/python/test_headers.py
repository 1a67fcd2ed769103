"""What an answer says of its way, read through `with_raw_response`."""

import pytest

from calls import ALL, BOTH
from samples import user

RAW = {
    "chat": lambda client, **more: client.chat.completions.with_raw_response.create(
        model="gpt-4.1", messages=[user("raw")], **more
    ),
    "respond": lambda client, **more: client.responses.with_raw_response.create(
        model="gpt-4.1", input="raw", **more
    ),
    "message": lambda client, **more: client.messages.with_raw_response.create(
        model="claude-sonnet-4-6", max_tokens=99, messages=[user("raw")], **more
    ),
}


@pytest.mark.parametrize("which", RAW)
@pytest.mark.parametrize("streams", [False, True])
def test_every_answer_names_its_way(mock, gate, which, streams):
    connect, _ = ALL[which]
    with connect(gate.url) as client:
        answer = RAW[which](client, stream=streams)
        headers = answer.headers
        if streams:
            assert list(answer.parse())
    provider, model = ("anthropic", "claude-sonnet-4-6") if which == "message" else ("openai", "gpt-4.1")
    assert headers["x-sluicegate-provider"] == provider
    assert headers["x-sluicegate-model"] == model
    assert headers["x-sluicegate-attempts"] == "1"
    # A response that nobody said not to store is stored by its provider, and flies for its caller alone.
    fate = "bypass" if which == "respond" else "miss"
    assert headers["x-sluicegate-cache"] == fate
    assert headers["cache-status"].startswith(f"sluicegate; fwd={fate}")
    assert all(name in headers["server-timing"] for name in ("gate;dur=", "queue;dur=", "upstream;dur="))
    assert headers["x-request-id"]
    if which == "message":
        assert headers["request-id"].startswith("req_mock_")
    else:
        assert headers["x-upstream-request-id"].startswith("req_mock_")
        assert headers["openai-version"] == "2020-10-01"


@pytest.mark.parametrize("which", RAW)
def test_no_store_is_a_bypass_and_own_headers_stay_here(mock, gate, which):
    connect, _ = ALL[which]
    asks = {
        "cache-control": "no-store",
        "x-request-id": "request-of-the-caller",
        "x-sluicegate-tags": "team=a",
        "x-sluicegate-priority": "high",
    }
    with connect(gate.url) as client:
        headers = RAW[which](client, extra_headers=asks).headers
    assert headers["x-sluicegate-cache"] == "bypass"
    assert headers["x-request-id"] == "request-of-the-caller"
    (received,) = mock.requests()
    assert not [name for name, _ in received.headers if name.startswith("x-sluicegate-")]


@pytest.mark.parametrize("which", BOTH)
def test_the_sdks_request_id(mock, gate, which):
    connect, call = BOTH[which]
    with connect(gate.url) as client:
        answer = call(client, extra_headers={"x-request-id": "request-of-the-caller"})
    wanted = "request-of-the-caller" if which == "chat" else "req_mock_"
    assert answer._request_id.startswith(wanted)


def test_rate_limit_headers_pass(mock, gate):
    mock.limits(rpm=60, tpm=100000)
    for which, name in (("chat", "x-ratelimit-limit-requests"), ("message", "anthropic-ratelimit-requests-limit")):
        connect, _ = BOTH[which]
        with connect(gate.url) as client:
            assert RAW[which](client).headers[name] == "60"
