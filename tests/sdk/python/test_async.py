"""The asynchronous clients: the same answers, and many at once."""

import asyncio

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from calls import BOTH, chat, message, respond
from samples import Weather, claude_tools, chat_tools, user

MANY = 64


async def listed(stream):
    return [event async for event in stream]


async def test_openai(twice):
    async def run(client):
        plain = await chat(client, "plain", tools=chat_tools("weather"))
        tools = await chat(client, "use tool", tools=chat_tools("weather"))
        stream = await listed(await chat(client, "stream", stream=True))
        async with client.chat.completions.stream(model="gpt-4.1", messages=[user("helper")]) as helper:
            final = await helper.get_final_completion()
        return plain, tools, stream, final

    _, tools, stream, final = await twice.openai_async(run)
    assert tools.choices[0].message.tool_calls and stream[-1].choices[0].finish_reason == "stop"
    assert final.choices[0].message.content


async def test_openai_responses(twice):
    async def run(client):
        plain = await respond(client, "plain")
        stream = await listed(await respond(client, "stream", stream=True))
        async with client.responses.stream(model="gpt-4.1", input="x", text_format=Weather) as helper:
            return plain, stream, await helper.get_final_response()

    _, stream, final = await twice.openai_async(run)
    assert stream[-1].type == "response.completed" and isinstance(final.output_parsed, Weather)


async def test_openai_other(twice):
    async def run(client):
        file = await client.files.create(file=("a.bin", b"\0\xff" * 5000), purpose="user_data")
        async with client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input="hello"
        ) as speech:
            sound = [len(piece) async for piece in speech.iter_bytes()]
        content = await client.files.content(file.id)
        embeddings = await client.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
        model = await client.models.retrieve("gpt-4.1")
        return file, sum(sound), content.read(), embeddings, model

    _, sound, content, embeddings, model = await twice.openai_async(run)
    assert sound > 1000 and content == b"\0\xff" * 5000 and len(embeddings.data) == 2 and model.id


async def test_anthropic(twice):
    async def run(client):
        plain = await message(client, "plain")
        tools = await message(client, "use tool", tools=claude_tools("weather"))
        stream = await listed(await message(client, "stream", stream=True))
        async with client.messages.stream(
            model="claude-sonnet-4-6", max_tokens=99, messages=[user("helper")]
        ) as helper:
            texts = [text async for text in helper.text_stream]
            final = await helper.get_final_message()
        file = await client.files.upload(file=("a.bin", b"\0\xff" * 5000, "application/octet-stream"))
        content = await (await client.files.download(file.id)).read()
        model = await client.models.retrieve("claude-sonnet-4-6")
        return plain, tools, stream, texts, final, content, model

    _, tools, stream, texts, final, content, model = await twice.anthropic_async(run)
    assert tools.stop_reason == "tool_use" and stream[-1].type == "message_stop"
    assert "".join(texts) == final.content[0].text and content == b"\0\xff" * 5000 and model.id


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
async def test_many_at_once_are_all_in_flight_together(mock, gate, which, streams):
    connect, call = BOTH[which]
    cls = AsyncOpenAI if which == "chat" else AsyncAnthropic

    async def ask(client, number):
        answer = await call(client, f"number {number}", stream=streams)
        return [event.model_dump() for event in await listed(answer)] if streams else answer.model_dump()

    async with connect(mock.url, cls) as client:
        direct = [await ask(client, number) for number in range(MANY)]
    mock.reset()
    mock.limits(latency="1s")
    async with connect(gate.url, cls) as client:
        gated = await asyncio.gather(*(ask(client, number) for number in range(MANY)))
    # Each caller has the answer to its own prompt.
    assert gated == direct
    stats = mock.stats()
    assert (stats["arrived"], stats["most_in_flight"]) == (MANY, MANY)


@pytest.mark.parametrize("which", BOTH)
async def test_a_cancelled_task_frees_its_upstream_call(mock, gate, which):
    mock.script("hang!")
    connect, call = BOTH[which]
    cls = AsyncOpenAI if which == "chat" else AsyncAnthropic
    async with connect(gate.url, cls) as client:
        task = asyncio.create_task(call(client))
        while mock.stats()["in_flight"] == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        mock.comes_to(lambda: mock.hang_ups() == 1, within=1)
    assert mock.stats()["in_flight"] == 0
