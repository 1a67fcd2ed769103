"""Equal calls at once are one call of the provider, and its answer is kept for those to come."""

import asyncio
import inspect
import itertools
import random
import subprocess
import sys
import time
from dataclasses import dataclass

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

import calls
from calls import chat, message
from twice import told

MANY = 200
#: How long the provider takes for each direct call, in seconds.
LATENCY = 1.0
#: What a crowd may take longer through the gate than directly, in seconds. Far above what is measured, which is printed.
ROOM = 0.5
#: How often that is measured before it counts as too long: the machine may have other things to do.
TRIES = 3


def respond(client, text="hello", **more):
    """A response that the provider is told not to store: only such a one is shared."""
    return calls.respond(client, text, store=False, **more)


ALL = {**calls.ALL, "respond": (calls.ALL["respond"][0], respond)}
CLIENTS = {"chat": AsyncOpenAI, "respond": AsyncOpenAI, "message": AsyncAnthropic}


def client_of(which, url, **options):
    return ALL[which][0](url, CLIENTS[which], max_retries=0, **options)


@dataclass
class Got:
    """What one caller got, and how long that took."""

    headers: dict
    said: object
    took: float

    @property
    def fate(self):
        return self.headers.get("x-sluicegate-cache")


async def ask(client, which, streams=False, **more):
    began = time.monotonic()
    answer = await ALL[which][1](client.with_raw_response, stream=streams, **more)
    parsed = answer.parse()
    if inspect.isawaitable(parsed):
        parsed = await parsed
    said = [event async for event in parsed] if streams else parsed
    return Got(answer.headers, told(said), time.monotonic() - began)


async def crowd(url, which, forms, ready=None, text="hello"):
    """Asks once for each form, all at once; with `ready`, the others come when the first one's call has it true."""
    async with client_of(which, url) as client:
        asking = [asyncio.create_task(ask(client, which, forms[0], text=text))]
        while ready and not ready():
            await asyncio.sleep(0.005)
        asking += [asyncio.create_task(ask(client, which, streams, text=text)) for streams in forms[1:]]
        return await asyncio.gather(*asking)


async def crowd_direct(mock, which, forms):
    """How long the slowest of a crowd takes directly, beyond the provider's own time."""
    mock.reset()
    mock.limits(latency=f"{LATENCY}s", chunk_interval="0s")
    slowest = max(got.took for got in await crowd(mock.url, which, forms))
    assert mock.arrived() == MANY
    mock.reset()
    return slowest - LATENCY


async def alone(mock, which, **more):
    """What the provider says to one caller, in each form."""
    async with client_of(which, mock.url) as client:
        return {streams: (await ask(client, which, streams, **more)).said for streams in (False, True)}


def is_whole(which, got, streams, direct):
    """A caller of either form has the same answer to the end, whatever form the provider gave it in."""
    assert text(which, got.said, streams) == text(which, direct[streams], streams)
    assert end(which, got.said, streams) == end(which, direct[streams], streams)


def text(which, said, streams):
    """All the words of an answer."""
    if which == "chat":
        if not streams:
            return said["choices"][0]["message"]["content"]
        return "".join(choice["delta"]["content"] or "" for chunk in said for choice in chunk["choices"])
    if which == "message":
        if not streams:
            return said["content"][0]["text"]
        return "".join(event["delta"]["text"] for event in said if event["type"] == "content_block_delta")
    if not streams:
        return said["output"][0]["content"][0]["text"]
    return "".join(event["delta"] for event in said if event["type"] == "response.output_text.delta")


def end(which, said, streams):
    """How an answer ends, and the tokens it tells of."""
    if which == "chat":
        last = said[-1] if streams else said
        return last["choices"][0]["finish_reason"], last["usage"]
    if which == "message":
        reason = said[-2]["delta"]["stop_reason"] if streams else said["stop_reason"]
        # The provider tells the rest of it at the beginning of a stream, and here only what was counted at its end.
        usage = said[-2]["usage"] if streams else said["usage"]
        return not streams or said[-1]["type"], reason, usage["input_tokens"], usage["output_tokens"]
    last = said[-1]["response"] if streams else said
    return last["status"], last["usage"]


MIXES = {
    "plain": [False] * MANY,
    "streams": [True] * MANY,
    "plain ones join a stream": [True] + [number % 2 == 0 for number in range(1, MANY)],
    "any order": random.Random(7).choices([False, True], k=MANY),
}


@pytest.mark.parametrize("mix, which", [*itertools.product(MIXES, calls.BOTH), ("any order", "respond")])
async def test_a_crowd_is_one_call(mock, gate, figures, which, mix):
    forms = MIXES[mix]
    for number in range(TRIES):
        text = f"crowd {number}"
        said = await alone(mock, which, text=text)
        direct = await crowd_direct(mock, which, forms)
        # Long enough for all callers to come meanwhile.
        latency = LATENCY + 3 * direct
        mock.limits(latency=f"{latency:.3f}s")
        first_aloft = (lambda: mock.stats()["in_flight"] == 1) if mix == "plain ones join a stream" else None
        gated = await crowd(gate.url, which, forms, first_aloft, text)

        arrived = mock.arrived()
        fates = [got.fate for got in gated]
        assert 1 <= arrived <= (2 if mix == "any order" else 1)
        assert (fates.count("miss"), fates.count("joined")) == (arrived, MANY - arrived)
        for got, streams in zip(gated, forms):
            is_whole(which, got, streams, said)
        if mix in ("plain", "streams"):
            assert all(got.said == said[forms[0]] for got in gated)
        assert len({got.headers["x-request-id"] for got in gated}) == MANY, "each call has an id of its own"
        beyond = max(got.took for got in gated) - latency
        figures(f"{which}, {mix}: {MANY} calls, beyond the provider's time: direct {direct:.3f} s, gate {beyond:.3f} s")
        if beyond <= direct + ROOM:
            return
        mock.limits(latency="0s")
        mock.reset()
    pytest.fail(f"{TRIES} times more than {ROOM} s longer than directly")


#: A caller in a process of its own.
CALLER = """
import sys
from test_sharing import ALL
connect, call = ALL[sys.argv[1]]
answer = call(connect(sys.argv[2]), stream=sys.argv[3] == "True")
for event in answer if sys.argv[3] == "True" else []:
    pass
"""


@pytest.mark.parametrize("which, how", [("chat", "killed"), ("message", "cancelled")])
@pytest.mark.parametrize("streams", [False, True])
async def test_the_first_caller_leaves_halfway(mock, gate, which, streams, how):
    said = await alone(mock, which)
    # Long enough for the others to come before half of it is over. A plain answer is halfway before its head, a
    # stream within its events.
    takes = LATENCY + 6 * await crowd_direct(mock, which, [streams] * MANY)
    if streams:
        mock.limits(latency="0s", chunks=8, chunk_interval=f"{takes / 8:.3f}s")
    else:
        mock.limits(latency=f"{takes:.3f}s")
    aloft = lambda: mock.stats()["in_flight"] == 1  # noqa: E731
    async with client_of(which, gate.url) as client, client_of(which, gate.url) as other:
        if how == "cancelled":
            first = asyncio.create_task(ask(client, which, streams))
        else:
            first = subprocess.Popen([sys.executable, "-c", CALLER, which, gate.url, str(streams)])
        while not aloft():
            await asyncio.sleep(0.005)
        asking = [asyncio.create_task(ask(other, which, streams)) for _ in range(MANY - 1)]
        await asyncio.sleep(takes / 2)
        assert aloft(), "halfway"
        if how == "cancelled":
            assert first.cancel()
        else:
            assert first.poll() is None, "it still waits"
            first.kill()
            first.wait()
        others = await asyncio.gather(*asking)
    assert [got.fate for got in others] == ["joined"] * (MANY - 1)
    assert all(got.said == said[streams] for got in others)
    stats = mock.stats()
    assert (stats["arrived"], stats["by_status"], stats["hang_ups"]["count"]) == (1, {"200": 1}, 0)


@pytest.mark.parametrize("which", ALL)
async def test_a_call_that_all_have_left_ends(mock, gate, which):
    mock.script("hang!")
    async with client_of(which, gate.url) as client:
        asking = [asyncio.create_task(ask(client, which)) for _ in range(10)]
        while mock.stats()["in_flight"] == 0:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.3)
        for task in asking[:-1]:
            task.cancel()
        await asyncio.sleep(0.3)
        assert (mock.arrived(), mock.hang_ups()) == (1, 0), "one still waits"
        asking[-1].cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        mock.comes_to(lambda: mock.hang_ups() == 1, within=1)


@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("first", [False, True])
async def test_a_later_call_gets_what_is_kept_in_either_form(mock, gate, which, first):
    said = await alone(mock, which)
    mock.reset()
    async with client_of(which, gate.url) as client:
        assert (await ask(client, which, first)).fate == "miss"
        for streams in (first, not first):
            got = await ask(client, which, streams)
            assert got.fate == "hit" and got.headers["age"] in ("0", "1", "2")
            assert got.headers["cache-status"].startswith("sluicegate; hit; ttl=")
            assert got.headers["content-type"].startswith("text/event-stream" if streams else "application/json")
            is_whole(which, got, streams, said)
            assert streams != first or got.said == said[first]
    assert mock.arrived() == 1


@pytest.mark.parametrize("which", ALL)
async def test_no_store_shares_nothing(mock, gate, which):
    mock.limits(latency="500ms")
    apart = {"extra_headers": {"Cache-Control": "no-store"}}
    async with client_of(which, gate.url) as client:
        got = await asyncio.gather(ask(client, which), *(ask(client, which, **apart) for _ in range(3)))
        assert [one.fate for one in got] == ["miss"] + ["bypass"] * 3
        assert all(one.said == got[0].said for one in got)
        assert mock.arrived() == 4
        assert (await ask(client, which, **apart)).fate == "bypass", "nor does it get what is kept"
        assert mock.arrived() == 5
        assert (await ask(client, which)).fate == "hit"


@pytest.mark.parametrize("which", ALL)
async def test_no_cache_asks_anew_and_what_comes_is_kept(mock, gate, which):
    anew = {"extra_headers": {"Cache-Control": "no-cache"}}
    async with client_of(which, gate.url) as client:
        assert (await ask(client, which)).fate == "miss"
        got = await ask(client, which, **anew)
        assert got.fate == "miss" and got.headers["cache-status"].startswith("sluicegate; fwd=request")
        assert mock.arrived() == 2
        assert (await ask(client, which)).fate == "hit"
    assert mock.arrived() == 2


@pytest.mark.parametrize("which", ALL)
async def test_only_if_cached_never_asks(mock, gate, which):
    only = {"extra_headers": {"Cache-Control": "only-if-cached"}}
    async with client_of(which, gate.url) as client:
        with pytest.raises(Exception) as raised:
            await ask(client, which, **only)
        assert raised.value.status_code == 504
        assert raised.value.response.headers["x-sluicegate-error"] == "not_cached"
        assert mock.arrived() == 0
        await ask(client, which)
        assert (await ask(client, which, **only)).fate == "hit"
    assert mock.arrived() == 1


@pytest.mark.parametrize("which", ALL)
async def test_callers_with_keys_of_their_own_share_nothing_and_those_of_the_gates_key_all(mock, gate_with, which):
    mock.limits(latency="500ms")
    for gate, asked, fates in (
        (gate_with(), 2, ["miss", "miss"]),
        (gate_with(env={"OPENAI_API_KEY": "sk-gate", "ANTHROPIC_API_KEY": "sk-gate"}), 1, ["joined", "miss"]),
    ):
        mock.reset()
        async with client_of(which, gate.url, api_key="sk-a") as one, client_of(which, gate.url, api_key="sk-b") as other:
            got = await asyncio.gather(ask(one, which), ask(other, which))
            assert sorted(one.fate for one in got) == fates
            assert mock.arrived() == asked
            assert [(await ask(client, which)).fate for client in (one, other)] == ["hit", "hit"]
        assert mock.arrived() == asked


@pytest.mark.parametrize("which", ALL)
async def test_a_failure_is_told_to_all_aboard_and_is_not_kept(mock, gate, which):
    mock.script("cut 1x; ok")
    mock.limits(latency="500ms")
    async with client_of(which, gate.url) as client:
        failed = await asyncio.gather(*(ask(client, which) for _ in range(20)), return_exceptions=True)
        assert [error.status_code for error in failed] == [502] * 20
        assert {error.response.headers["x-sluicegate-error"] for error in failed} == {"upstream_error"}
        assert mock.arrived() == 1
        assert (await ask(client, which)).fate == "miss"
    assert mock.arrived() == 2


@pytest.mark.parametrize("which", ALL)
async def test_a_stream_that_breaks_breaks_for_all_aboard(mock, gate, which):
    mock.script("cut 1x; ok")
    mock.limits(latency="500ms")
    broken = []

    async def follow(client):
        events = []
        with pytest.raises(Exception) as raised:
            async for event in await ALL[which][1](client, stream=True):
                events.append(told(event))
        broken.append((raised.value, events))

    async with client_of(which, gate.url) as client:
        await asyncio.gather(*(follow(client) for _ in range(20)))
        assert mock.arrived() == 1
        assert len(broken) == 20 and broken[0][1]
        assert all(events == broken[0][1] for _, events in broken), "what had come is passed on to everyone"
        for error, _ in broken:
            assert isinstance(error, (openai.APIError, anthropic.APIError)), repr(error)
            assert "provider" in str(error)
        assert (await ask(client, which)).fate == "miss"


@pytest.mark.parametrize("which", ALL)
async def test_the_deadline_of_one_is_not_that_of_the_others(mock, gate, which):
    mock.limits(latency="1s")
    async with client_of(which, gate.url) as client:
        hasty = asyncio.create_task(ask(client, which, extra_headers={"x-sluicegate-timeout": "400ms"}))
        while mock.stats()["in_flight"] == 0:
            await asyncio.sleep(0.005)
        other = asyncio.create_task(ask(client, which))
        with pytest.raises(Exception) as raised:
            await hasty
        assert raised.value.response.headers["x-sluicegate-error"] == "deadline_exceeded"
        assert (await other).fate == "joined"
    assert (mock.arrived(), mock.hang_ups()) == (1, 0)


async def test_what_is_never_shared(mock, gate):
    """The provider would keep the one, and draws several answers for the other, which are meant to differ."""
    async with client_of("chat", gate.url) as client:
        for _ in range(2):
            answer = await calls.respond(client.with_raw_response)
            assert answer.headers["x-sluicegate-cache"] == "bypass"
            answer = await chat(client.with_raw_response, n=2)
            assert answer.headers["x-sluicegate-cache"] == "bypass"
    async with client_of("message", gate.url) as client:
        search = [{"type": "web_search_20250305", "name": "web_search"}]
        for _ in range(2):
            answer = await message(client.with_raw_response, tools=search)
            assert answer.headers["x-sluicegate-cache"] == "bypass"
    assert mock.arrived() == 6
