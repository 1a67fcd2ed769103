"""Equal translated calls are one call of the provider, whatever form each of them wants."""

import asyncio
import inspect

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tongues import BOTH, text_of
from twice import told

MANY = 200
CLIENTS = {"chat": AsyncOpenAI, "message": AsyncAnthropic}
#: All plain, all streams, and by turns.
MIXES = {"plain": [False] * MANY, "streams": [True] * MANY, "both": [number % 2 == 0 for number in range(MANY)]}


async def ask(client, which, streams):
    """How the call came by its answer, and the answer."""
    raw = await BOTH[which][1](client.with_raw_response, stream=streams)
    answer = raw.parse()
    if inspect.isawaitable(answer):
        answer = await answer
    return raw.headers["x-sluicegate-cache"], [event async for event in answer] if streams else answer


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("mix", MIXES)
async def test_a_crowd_is_one_call(mock, translator, which, mix):
    # Some come when the answer is there already, and are given it all the same.
    mock.limits(latency="2s")
    async with BOTH[which][0](translator.url, CLIENTS[which], max_retries=0) as client:
        first = asyncio.create_task(ask(client, which, MIXES[mix][0]))
        while mock.stats()["in_flight"] == 0:
            await asyncio.sleep(0.005)
        others = (ask(client, which, streams) for streams in MIXES[mix][1:])
        got = await asyncio.gather(first, *others)
    assert mock.arrived() == 1
    fates = [fate for fate, _ in got]
    assert fates[0] == "miss" and "joined" in fates and set(fates[1:]) <= {"joined", "hit"}
    for streams in set(MIXES[mix]):
        answers = [told(answer) for (_, answer), form in zip(got, MIXES[mix]) if form is streams]
        # Of one form they are equal, ids and all.
        assert all(answer == answers[0] for answer in answers)
    assert len({text_of(which, answer) for _, answer in got}) == 1


@pytest.mark.parametrize("which", BOTH)
async def test_different_calls_are_all_made_at_once(mock, translator, which):
    mock.limits(latency="1s")
    connect, call = BOTH[which]
    async with connect(translator.url, CLIENTS[which], max_retries=0) as client:
        got = await asyncio.gather(*(call(client, f"number {number}") for number in range(64)))
    assert len({text_of(which, answer) for answer in got}) == 64
    stats = mock.stats()
    assert (stats["arrived"], stats["most_in_flight"]) == (64, 64)
