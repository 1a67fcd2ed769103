"""Agents: five turns with two calls of tools each, pictures in their results, and thoughts that go back.

The strict provider takes calls and results only where they belong together, and thoughts only as they were.
"""

import json

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from samples import PNG, chat_tools, claude_tools, user
from tongues import CLAUDE, GPT, dropped, message
from twice import anthropic, openai

TURNS = 5
NAMES = ["weather", "news"]
CHAT_TOOLS = chat_tools(*NAMES)
CLAUDE_TOOLS = claude_tools(*NAMES)
GO_ON = "use two tools"
#: They think if asked to, up to a number of tokens; as they see fit; always, and do not show it unless asked.
THINKING = ["claude-sonnet-4-5", "claude-sonnet-4-6", "claude-opus-5-5"]


def chat_ask(model):
    return {"model": model, "tools": CHAT_TOOLS, "reasoning_effort": "medium", "max_completion_tokens": 8000}


def chat_results(calls, turn):
    """What the tools say, a picture with the first of them."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    for number, call in enumerate(calls):
        text = {"type": "text", "text": f"{call['function']['name']} {turn}"}
        content = [text, picture] if number == 0 else f"{call['function']['name']} {turn}"
        yield {"role": "tool", "tool_call_id": call["id"], "content": content}


def chat_loop():
    """Gives histories and takes the messages that answer them, until it has been told what it is about."""
    history = [{"role": "system", "content": "You plan trips."}, user(GO_ON)]
    for turn in range(TURNS):
        message = yield history
        calls = told_calls(message)
        assert [call["function"]["name"] for call in calls] == NAMES
        assert all(isinstance(json.loads(call["function"]["arguments"])["city"], str) for call in calls)
        history = [*history, message, *chat_results(calls, turn)]
        # The last results stand alone: the model says what it makes of them.
        history += [user(GO_ON)] if turn < TURNS - 1 else []
    message = yield history
    return message


def told_calls(message):
    return message["tool_calls"] if isinstance(message, dict) else [call.to_dict() for call in message.tool_calls]


def run(loop, ask):
    """Answers a loop with `ask` to its end."""
    history = next(loop)
    while True:
        try:
            history = loop.send(ask(history))
        except StopIteration as end:
            return end.value


async def run_async(loop, ask):
    history = next(loop)
    while True:
        try:
            history = loop.send(await ask(history))
        except StopIteration as end:
            return end.value


def claude_got_it_all(mock, thinks):
    """Every request begins as the one before it, and has its pictures and thoughts where they were."""
    sent = [request.json() for request in mock.requests()]
    assert len(sent) == TURNS + 1
    for before, after in zip(sent, sent[1:]):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert (after["system"], after["tools"]) == (before["system"], before["tools"])
    turns = sent[-1]["messages"]
    assert [turn["role"] for turn in turns] == ["user", *["assistant", "user"] * TURNS]
    for said, answered in zip(turns[1::2], turns[2::2]):
        kinds = [block["type"] for block in said["content"]]
        assert kinds == (["thinking"] if thinks else []) + ["tool_use"] * 2
        results = answered["content"][:2]
        assert [block["tool_use_id"] for block in results] == [block["id"] for block in said["content"][-2:]]
        assert results[0]["content"][1]["source"]["data"] == PNG


@pytest.mark.parametrize("model", THINKING)
def test_openais_messages_go_back_to_claude_as_they_came(mock, translator, model):
    with openai(translator.url) as client:
        ask = lambda history: client.chat.completions.create(messages=history, **chat_ask(model))  # noqa: E731
        last = run(chat_loop(), lambda history: ask(history).choices[0].message)
    assert last.content.startswith(f"I see {TURNS} images")
    assert last.reasoning_content.startswith("First, ") and last.reasoning_details[0]["signature"]
    claude_got_it_all(mock, thinks=True)


@pytest.mark.parametrize("model", THINKING)
def test_messages_of_openais_stream_helper_go_back_to_claude_as_they_came(mock, translator, model):
    def ask(history):
        with client.chat.completions.stream(messages=history, **chat_ask(model)) as stream:
            return stream.get_final_completion().choices[0].message

    with openai(translator.url) as client:
        last = run(chat_loop(), ask)
    assert last.content.startswith(f"I see {TURNS} images")
    # The helper joins what it does not know just as it joins text.
    assert last.reasoning_content.startswith("First, ") and last.reasoning_details[0]["signature"]
    claude_got_it_all(mock, thinks=True)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_asynchronous_loop_on_claude(mock, translator, streams):
    async def ask(history):
        if not streams:
            completion = await client.chat.completions.create(messages=history, **chat_ask(CLAUDE))
            return completion.choices[0].message
        async with client.chat.completions.stream(messages=history, **chat_ask(CLAUDE)) as stream:
            return (await stream.get_final_completion()).choices[0].message

    async with openai(translator.url, AsyncOpenAI) as client:
        last = await run_async(chat_loop(), ask)
    assert last.content.startswith(f"I see {TURNS} images")
    claude_got_it_all(mock, thinks=True)


def test_a_loop_on_a_claude_that_does_not_think(mock, translator):
    with openai(translator.url) as client:
        ask = lambda history: client.chat.completions.create(model=CLAUDE, tools=CHAT_TOOLS, messages=history)  # noqa: E731
        last = run(chat_loop(), lambda history: ask(history).choices[0].message)
    assert last.content.startswith(f"I see {TURNS} images") and not last.model_extra
    claude_got_it_all(mock, thinks=False)


def without_details(message):
    """As a client keeps it that knows only the protocol's own fields."""
    kept = ("role", "content", "tool_calls")
    return {name: value for name, value in message.to_dict().items() if name in kept}


@pytest.mark.parametrize("model", THINKING)
def test_a_loop_of_a_client_that_loses_the_thoughts(mock, translator, model):
    with openai(translator.url) as client:
        ask = lambda history: client.chat.completions.create(messages=history, **chat_ask(model))  # noqa: E731
        last = run(chat_loop(), lambda history: without_details(ask(history).choices[0].message))
    assert last["content"].startswith(f"I see {TURNS} images")
    claude_got_it_all(mock, thinks=False)


def test_tools_are_forced_forbidden_and_called_one_by_one(mock, translator):
    def calls(choice, **more):
        answer = client.chat.completions.create(
            model=CLAUDE, messages=[user(f"two tools {choice}")], tools=CHAT_TOOLS, tool_choice=choice, **more
        )
        return [call.function.name for call in answer.choices[0].message.tool_calls or []]

    named = {"type": "function", "function": {"name": "news"}}
    with openai(translator.url) as client:
        assert calls("none") == []
        assert calls("required") == calls("auto") == NAMES
        assert calls(named) == ["news"] * 2
        assert calls("auto", parallel_tool_calls=False) == ["weather"]
    forced, one = mock.requests()[3].json(), mock.requests()[4].json()
    assert forced["tool_choice"] == {"type": "tool", "name": "news"}
    assert one["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def claude_results(calls, turn):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    for number, call in enumerate(calls):
        text = f"{call.name} {turn}"
        content = [{"type": "text", "text": text}, picture] if number == 0 else text
        yield {"type": "tool_result", "tool_use_id": call.id, "content": content}


def claude_loop():
    history = [user(GO_ON)]
    for turn in range(TURNS):
        message = yield history
        calls = [block for block in message.content if block.type == "tool_use"]
        assert (message.stop_reason, [call.name for call in calls]) == ("tool_use", NAMES)
        assert all(isinstance(call.input["city"], str) for call in calls)
        more = [{"type": "text", "text": GO_ON}] if turn < TURNS - 1 else []
        answered = user([*claude_results(calls, turn), *more])
        history = [*history, {"role": "assistant", "content": message.content}, answered]
    message = yield history
    return message


def message_ask(model):
    # Later ones take tools in chat completions only where they do not think.
    thinks = {"thinking": {"type": "enabled", "budget_tokens": 2000}} if model == "gpt-5-mini" else {}
    return {"model": model, "max_tokens": 8000, "system": "You plan trips.", "tools": CLAUDE_TOOLS, **thinks}


def gpt_got_it_all(mock):
    sent = [request.json() for request in mock.requests()]
    assert len(sent) == TURNS + 1
    for before, after in zip(sent, sent[1:]):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]
    turns = sent[-1]["messages"]
    # A tool's message has no room for a picture: the user shows it right behind.
    assert [turn["role"] for turn in turns[1:]] == ["user", *["assistant", "tool", "tool", "user"] * TURNS]
    for said, *results, shown in zip(turns[2::4], turns[3::4], turns[4::4], turns[5::4]):
        assert [result["tool_call_id"] for result in results] == [call["id"] for call in said["tool_calls"]]
        pictures = [part["image_url"]["url"] for part in shown["content"] if part["type"] == "image_url"]
        assert pictures == [f"data:image/png;base64,{PNG}"]


@pytest.mark.parametrize("model", [GPT, "gpt-5-mini", "gpt-5.6"])
@pytest.mark.parametrize("streams", [False, True])
def test_anthropics_messages_go_back_to_gpt_as_they_came(mock, translator, model, streams):
    def ask(history):
        if not streams:
            return client.messages.create(messages=history, **message_ask(model))
        with client.messages.stream(messages=history, **message_ask(model)) as stream:
            return stream.get_final_message()

    with anthropic(translator.url) as client:
        last = run(claude_loop(), ask)
    assert last.stop_reason == "end_turn" and last.content[0].text.startswith(f"I see {TURNS} images")
    gpt_got_it_all(mock)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_asynchronous_loop_on_gpt(mock, translator, streams):
    async def ask(history):
        if not streams:
            return await client.messages.create(messages=history, **message_ask(GPT))
        async with client.messages.stream(messages=history, **message_ask(GPT)) as stream:
            return await stream.get_final_message()

    async with anthropic(translator.url, AsyncAnthropic) as client:
        last = await run_async(claude_loop(), ask)
    assert last.content[0].text.startswith(f"I see {TURNS} images")
    gpt_got_it_all(mock)


def test_a_tool_that_failed(mock, translator):
    with anthropic(translator.url) as client:
        first = message(client, GO_ON, tools=CLAUDE_TOOLS)
        failed = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "no such city", "is_error": True}
            for call in first.content
        ]
        turns = [user(GO_ON), {"role": "assistant", "content": first.content}, user(failed)]
        assert message(client, messages=turns, tools=CLAUDE_TOOLS).stop_reason == "end_turn"
    results = [turn for turn in mock.requests()[1].json()["messages"] if turn["role"] == "tool"]
    assert [result["content"] for result in results] == ["Error: no such city"] * 2


def test_anthropics_choices_on_gpt(mock, translator):
    def calls(choice):
        answer = message(client, f"two tools {choice}", tools=CLAUDE_TOOLS, tool_choice=choice)
        return [block.name for block in answer.content if block.type == "tool_use"]

    with anthropic(translator.url) as client:
        assert calls({"type": "none"}) == []
        assert calls({"type": "any"}) == calls({"type": "auto"}) == NAMES
        assert calls({"type": "tool", "name": "news"}) == ["news"] * 2
        calls({"type": "auto", "disable_parallel_tool_use": True})
    sent = [request.json() for request in mock.requests()]
    assert [ask["tool_choice"] for ask in sent[:3]] == ["none", "required", "auto"]
    assert sent[3]["tool_choice"] == {"type": "function", "function": {"name": "news"}}
    assert sent[4]["parallel_tool_calls"] is False


@pytest.mark.parametrize("streams", [False, True])
def test_a_conversation_that_changes_between_the_vendors_and_back(translator, streams):
    """Thoughts of one are left out for the other, and are as they were when the first is asked again."""
    claude = {"model": CLAUDE, "max_tokens": 4096, "thinking": {"type": "adaptive"}, "tools": CLAUDE_TOOLS}
    gpt = {"model": GPT, "max_tokens": 4096, "tools": CLAUDE_TOOLS}

    def ask(history, model):
        if not streams:
            return client.messages.create(messages=history, **model)
        with client.messages.stream(messages=history, **model) as stream:
            return stream.get_final_message()

    with anthropic(translator.url) as client:
        models = iter([claude, gpt, claude, gpt, claude, claude])
        last = run(claude_loop(), lambda history: ask(history, next(models)))
        thought = [{"role": "assistant", "content": last.content}, user("and now?")]
        raw = client.messages.with_raw_response.create(messages=[user("why?"), *thought], **gpt)
    assert [block.type for block in last.content] == ["thinking", "text"]
    assert "messages.thinking" in dropped(raw)
