"""Tools that one vendor has and the other has not, or under other rules; and the SDKs' own runners of tools."""

import json

import pytest
from anthropic import beta_tool

from samples import PLACE, claude_tools, user
from tongues import CLAUDE, GPT, chat, dropped, message
from twice import anthropic, openai

LONG = "look_up_" + "x" * 100
NOTHING = {"type": "object", "properties": {}}


def chat_message(client, streams, **ask):
    if not streams:
        return chat(client, **ask).choices[0].message
    with client.chat.completions.stream(**{"model": CLAUDE, **ask}) as stream:
        return stream.get_final_completion().choices[0].message


def claude_message(client, streams, **ask):
    ask = {"model": GPT, "max_tokens": 400, **ask}
    if not streams:
        return client.messages.create(**ask)
    with client.messages.stream(**ask) as stream:
        return stream.get_final_message()


def test_a_tool_that_takes_a_text(mock, translator):
    tools = [{"type": "custom", "custom": {"name": "shell", "description": "Runs a command."}}]
    turns = [user("use tool")]
    with openai(translator.url) as client:
        for _ in range(2):
            said = chat(client, messages=turns, tools=tools).choices[0].message
            [call] = said.tool_calls
            assert (call.type, call.custom.name) == ("custom", "shell") and call.custom.input
            turns += [said, {"role": "tool", "tool_call_id": call.id, "content": "done"}, user("use tool")]
    first, second = (request.json() for request in mock.requests())
    assert first["tools"][0]["name"] == "shell" and first["tools"][0]["input_schema"]["type"] == "object"
    [called] = second["messages"][1]["content"]
    assert list(called["input"].values()) and called["name"] == "shell"


def test_a_stream_of_a_tool_that_takes_a_text(translator):
    tools = [{"type": "custom", "custom": {"name": "shell"}}]
    ask = {"messages": [user("use tool")], "tools": tools, "extra_headers": {"Cache-Control": "no-store"}}
    with openai(translator.url) as client:
        [plain] = chat(client, **ask).choices[0].message.tool_calls
        calls = [
            call
            for chunk in chat(client, stream=True, **ask)
            for choice in chunk.choices
            for call in choice.delta.tool_calls or []
        ]
    assert (calls[0].id, calls[0].type) == (plain.id, "custom")
    # The SDK's type of a delta knows functions only.
    said = [call.model_extra["custom"] for call in calls]
    assert said[0]["name"] == "shell"
    assert "".join(piece.get("input") or "" for piece in said) == plain.custom.input


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_without_arguments(translator, streams):
    with openai(translator.url) as client, anthropic(translator.url) as claude:
        functions = [{"type": "function", "function": {"name": "now", "parameters": NOTHING}}]
        [call] = chat_message(client, streams, messages=[user("use tool")], tools=functions).tool_calls
        bare = [{"type": "function", "function": {"name": "now"}}]
        [without_schema] = chat_message(client, streams, messages=[user("use tool")], tools=bare).tool_calls
        tools = [{"name": "now", "input_schema": NOTHING}]
        [block] = claude_message(claude, streams, messages=[user("use tool")], tools=tools).content
    assert json.loads(call.function.arguments) == json.loads(without_schema.function.arguments) == {}
    assert (block.name, block.input) == ("now", {})


@pytest.mark.parametrize("streams", [False, True])
def test_names_that_are_too_long_for_openai(mock, translator, streams):
    tools = claude_tools(LONG, "weather")
    turns = [user("use two tools")]
    with anthropic(translator.url) as client:
        for _ in range(2):
            said = claude_message(client, streams, messages=turns, tools=tools)
            assert [block.name for block in said.content] == [LONG, "weather"]
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": "18"} for block in said.content]
            turns += [
                {"role": "assistant", "content": said.content},
                user([*results, {"type": "text", "text": "use two tools"}]),
            ]
        choice = {"type": "tool", "name": LONG}
        forced = claude_message(client, streams, messages=[user("hello")], tools=tools, tool_choice=choice)
    assert [block.name for block in forced.content] == [LONG]
    first, second, _ = (request.json() for request in mock.requests())
    name = first["tools"][0]["function"]["name"]
    assert len(name) <= 64 and name == second["messages"][1]["tool_calls"][0]["function"]["name"]


def test_openais_strict_functions_on_claude(mock, translator):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PLACE, "strict": True}}]
    with openai(translator.url) as client:
        parsed = client.chat.completions.parse(model=CLAUDE, messages=[user("use tool")], tools=tools)
        streamed = chat_message(client, True, messages=[user("use tool again")], tools=tools)
    for said in (parsed.choices[0].message, streamed):
        assert isinstance(said.tool_calls[0].function.parsed_arguments["city"], str)
    assert mock.requests()[0].json()["tools"][0]["strict"] is True


@pytest.mark.parametrize("streams", [False, True])
def test_anthropics_runner_of_tools_on_gpt(mock, translator, streams):
    """It would have the provider keep the conversation, and sends it whole where it is told that this can't be."""
    asked = []

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: its name
        """
        asked.append(city)
        return f"18 degrees in {city}"

    with anthropic(translator.url) as client:
        runner = client.beta.messages.tool_runner(
            model=GPT, max_tokens=400, tools=[weather], messages=[user("use tool")], stream=streams
        )
        last = runner.until_done()
    assert last.stop_reason == "end_turn" and last.content[0].text
    [city] = asked
    called, answered = mock.requests()[1].json()["messages"][1:]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"city": city}
    assert (answered["role"], answered["content"]) == ("tool", f"18 degrees in {city}")


def test_beta_messages_and_beta_headers(mock, translator):
    with anthropic(translator.url) as client:
        raw = client.beta.messages.with_raw_response.create(
            model=GPT, max_tokens=400, messages=[user("beta")], betas=["brand-new-2027-01-01"]
        )
    assert raw.parse().content[0].text
    assert "anthropic-beta" in dropped(raw)
    [request] = mock.requests()
    assert request.path == "/v1/chat/completions" and request.header("anthropic-beta") is None


def test_tokens_of_a_message_to_gpt_are_estimated(mock, translator):
    with anthropic(translator.url) as client:
        short = client.messages.count_tokens(model=GPT, messages=[user("count me")])
        long = client.messages.count_tokens(model=GPT, messages=[user("count me " * 500)], tools=claude_tools("weather"))
    assert 0 < short.input_tokens < 100 and 500 < long.input_tokens < 5000
    assert mock.arrived() == 0


def test_a_beginning_of_the_answer_is_refused_where_the_model_takes_none(mock, translator):
    turns = [user("one word"), {"role": "assistant", "content": "It is"}]
    with openai(translator.url) as client:
        assert chat(client, model="claude-haiku-4-5", messages=turns).choices[0].message.content
        with pytest.raises(Exception) as raised:
            chat(client, model=CLAUDE, messages=turns)
    assert raised.value.status_code == 400 and raised.value.param.startswith("messages")
    assert mock.arrived() == 1


def test_who_asks_is_told_on(mock, translator):
    with openai(translator.url) as client, anthropic(translator.url) as claude:
        chat(client, safety_identifier="user-7")
        message(claude, metadata={"user_id": "user-8"})
    to_claude, to_gpt = (request.json() for request in mock.requests())
    assert to_claude["metadata"] == {"user_id": "user-7"}
    assert "user-8" in (to_gpt.get("safety_identifier"), to_gpt.get("user"))
