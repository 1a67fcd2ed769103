"""Every answer, chunk and event is what the SDK's own types say, to the letter, and no more than that."""

import json

import httpx2
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, TypeAdapter, ValidationError

from samples import PLACE, chat_tools, claude_tools, user
from tongues import CLAUDE, GPT

#: Fields of ours that clients echo who do not know them.
OURS = {"reasoning_content", "reasoning_details"}
FORM = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}
CHATS = {
    "text": {},
    "tools": {"messages": [user("use two tools")], "tools": chat_tools("weather", "news")},
    "thoughts": {"reasoning_effort": "low", "max_completion_tokens": 4000},
    "thoughts and tools": {
        "messages": [user("use two tools")],
        "tools": chat_tools("weather", "news"),
        "reasoning_effort": "low",
    },
    "a form": {"response_format": FORM},
    "a limit": {"max_completion_tokens": 5},
}
MESSAGES = {
    "text": {},
    "tools": {"messages": [user("use two tools")], "tools": claude_tools("weather", "news")},
    "thoughts": {"model": "gpt-5-mini", "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    "a form": {"output_config": {"format": {"type": "json_schema", "schema": PLACE}}},
    "a limit": {"max_tokens": 5},
}


def post(gate, path, body, **more):
    answer = httpx2.post(f"{gate.url}{path}", json={**body, **more}, headers={"Cache-Control": "no-store"})
    assert answer.status_code == 200, answer.text
    return answer


def chat(gate, case, **more):
    return post(gate, "/v1/chat/completions", {"model": CLAUDE, "messages": [user("hello")], **CHATS[case]}, **more)


def message(gate, case, **more):
    body = {"model": GPT, "max_tokens": 400, "messages": [user("hello")], **MESSAGES[case]}
    return post(gate, "/v1/messages", body, **more)


def valid(kind, raw):
    """The text as this type, without anything that the type does not have."""
    value = TypeAdapter(kind).validate_json(raw, strict=True)
    assert strangers(value) <= OURS, raw
    return value


def strangers(value):
    """The names of all fields that are not in their types."""
    if isinstance(value, list):
        return set().union(*map(strangers, value))
    if not isinstance(value, BaseModel):
        return set()
    fields = (getattr(value, name) for name in type(value).model_fields)
    return set(value.model_extra or ()).union(*map(strangers, fields))


def data(answer):
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize("case", CHATS)
def test_chat_completions(translator, case):
    answer = chat(translator, case)
    assert answer.headers["content-type"] == "application/json"
    completion = valid(ChatCompletion, answer.text)
    assert completion.usage.total_tokens > 0 and len(completion.choices) == 1
    ours = set(completion.choices[0].message.model_extra)
    assert ours == (OURS if case.startswith("thoughts") else set())


@pytest.mark.parametrize("case", CHATS)
@pytest.mark.parametrize("options", [None, {"include_usage": True}])
def test_chat_chunks(translator, case, options):
    *chunks, last = data(chat(translator, case, stream=True, **({"stream_options": options} if options else {})))
    assert last == "[DONE]"
    chunks = [valid(ChatCompletionChunk, chunk) for chunk in chunks]
    counted = [chunk for chunk in chunks if chunk.usage]
    assert counted == ([chunks[-1]] if options else [])
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert [delta.role for delta in deltas if delta.role] == ["assistant"]
    finished = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert finished == [{"tools": "tool_calls", "thoughts and tools": "tool_calls", "a limit": "length"}.get(case, "stop")]


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(translator, case):
    answer = message(translator, case)
    assert answer.headers["content-type"] == "application/json"
    told = valid(Message, answer.text)
    assert told.content and told.usage.input_tokens > 0 and told.usage.output_tokens > 0
    # The SDK's types let these be left out; the provider never does.
    assert {"stop_reason", "stop_sequence", "usage"} <= set(json.loads(answer.text))


@pytest.mark.parametrize("case", MESSAGES)
def test_message_events(translator, case):
    answer = message(translator, case, stream=True)
    events = [valid(RawMessageStreamEvent, event) for event in data(answer)]
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names == [event.type for event in events]
    assert [event.type for event in events].count("message_start") == 1
    assert [event.type for event in events[-2:]] == ["message_delta", "message_stop"]
    # Blocks come one after the other, each begun and ended.
    blocks = [(event.type, event.index) for event in events if event.type.startswith("content_block")]
    numbers = [index for _, index in blocks]
    assert numbers == sorted(numbers)
    for number in set(numbers):
        kinds = [kind for kind, index in blocks if index == number]
        assert (kinds[0], kinds[-1]) == ("content_block_start", "content_block_stop")
        assert set(kinds[1:-1]) == {"content_block_delta"}


def test_the_types_are_strict_enough_to_tell():
    for kind, raw in [
        (ChatCompletionChunk, {"id": "c", "object": "chat.completion.chunk", "created": "1", "model": "m", "choices": []}),
        (ChatCompletion, {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}),
        (RawMessageStreamEvent, {"type": "message_end"}),
        (Message, {"id": "m", "type": "message", "role": "user", "content": [], "model": "m"}),
    ]:
        with pytest.raises(ValidationError):
            valid(kind, json.dumps(raw))
    with pytest.raises(AssertionError):
        valid(RawMessageStreamEvent, json.dumps({"type": "message_stop", "brand_new": 1}))
