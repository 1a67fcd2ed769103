"""Deadlines, overload and callers that leave: the gate's own refusals, as the SDKs take them."""

import threading
import time

import anthropic
import openai
import pytest

from calls import ALL, BOTH
from rig import PATIENCE


@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("streams", [False, True])
def test_the_callers_deadline_ends_a_call_and_is_not_tried_again(mock, gate, which, streams):
    mock.script("hang!")
    connect, call = ALL[which]
    began = time.monotonic()
    with connect(gate.url) as client, pytest.raises(Exception) as raised:
        call(client, stream=streams, extra_headers={"x-sluicegate-timeout": "300ms"})
    assert 0.25 < time.monotonic() - began < 2
    headers = raised.value.response.headers
    assert raised.value.status_code == 504
    assert headers["x-sluicegate-error"] == "deadline_exceeded" and headers["x-should-retry"] == "false"
    assert mock.arrived() == 1
    mock.comes_to(lambda: mock.stats()["in_flight"] == 0, within=1)


@pytest.mark.parametrize("which", BOTH)
def test_a_deadline_that_can_not_be_read_is_refused(mock, gate, which):
    connect, call = BOTH[which]
    with connect(gate.url) as client, pytest.raises(Exception) as raised:
        call(client, extra_headers={"x-sluicegate-timeout": "soon"})
    assert raised.value.status_code == 400 and "x-sluicegate-timeout" in str(raised.value)
    assert mock.arrived() == 0


@pytest.mark.parametrize("which", BOTH)
def test_the_sdks_own_timeout(mock, gate, which):
    """The SDK tells its timeout, so the gate may be the first to give up: either is a timeout to the caller."""
    mock.script("hang!")
    connect, call = BOTH[which]
    with connect(gate.url, timeout=0.4, max_retries=0) as client, pytest.raises(Exception) as raised:
        call(client)
    error = raised.value
    if not isinstance(error, (openai.APITimeoutError, anthropic.APITimeoutError)):
        assert error.status_code == 504
        assert error.response.headers["x-sluicegate-error"] == "deadline_exceeded"
    assert mock.arrived() == 1
    mock.comes_to(lambda: mock.hang_ups() == 1, within=1)


@pytest.mark.parametrize("which", BOTH)
def test_a_timeout_between_the_bytes_of_a_stream(mock, gate, which):
    mock.script("stall 60s; ok")
    connect, call = BOTH[which]
    events = []
    with connect(gate.url, timeout=0.5) as client, pytest.raises(Exception) as raised:
        for event in call(client, stream=True):
            events.append(event)
    assert events
    assert not isinstance(raised.value, AssertionError)
    mock.comes_to(lambda: mock.hang_ups() == 1, within=1)
    assert mock.arrived() == 1


@pytest.mark.parametrize("which", BOTH)
def test_a_full_queue_is_told_with_a_hint_and_tried_again(mock, gate_with, which):
    gate = gate_with("--concurrency", "1", config="[queue]\nmax = 0\n")
    mock.limits(latency="600ms")
    connect, call = BOTH[which]
    with connect(gate.url) as client:
        first = threading.Thread(target=call, args=(client, "the first"))
        first.start()
        mock.comes_to(lambda: mock.stats()["in_flight"] == 1, within=PATIENCE)
        with connect(gate.url, max_retries=0) as hasty, pytest.raises(Exception) as raised:
            call(hasty, "turned away")
        assert call(client, "the second").id
        first.join()
    error = raised.value
    assert type(error).__name__ == "RateLimitError"
    assert error.response.headers["x-sluicegate-error"] == "overloaded"
    assert error.response.headers["x-sluicegate-reason"] == "queue_full"
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    # The provider never saw what was refused: two calls, and the second came as a retry.
    tries = [int(request.header("x-stainless-retry-count")) for request in mock.requests()]
    assert tries[0] == 0 and tries[1] >= 1 and len(tries) == 2
    assert mock.stats()["most_in_flight"] == 1


@pytest.mark.parametrize("which", ALL)
def test_a_caller_that_leaves_a_stream_frees_its_upstream_call(mock, gate, which):
    mock.limits(chunks=100, chunk_interval="50ms")
    connect, call = ALL[which]
    with connect(gate.url) as client:
        stream = call(client, stream=True)
        next(iter(stream))
        assert mock.hang_ups() == 0
        stream.close()
        mock.comes_to(lambda: mock.hang_ups() == 1, within=1)
    assert mock.stats()["in_flight"] == 0


def test_a_caller_that_leaves_before_the_head(mock, gate):
    mock.script("hang!")
    client = openai.OpenAI(api_key="k", base_url=f"{gate.url}/v1", timeout=0.3, max_retries=2)
    with client, pytest.raises(openai.APIError):
        client.files.content("file-mock")
    arrived = mock.arrived()
    assert 1 <= arrived <= 3
    mock.comes_to(lambda: mock.stats()["in_flight"] == 0, within=1)
