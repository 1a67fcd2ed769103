"""OpenAI's SDK asks Claude and Anthropic's SDK asks GPT: answers, streams, forms, limits, attachments, hints.

The provider's words follow from the model and the prompt alone. So where a translated call gets what the vendor's
own SDK gets directly, the prompt arrived as it was meant.
"""

import pytest
from anthropic import AsyncAnthropic, BadRequestError as AnthropicBadRequest
from openai import AsyncOpenAI, BadRequestError as OpenAiBadRequest

from samples import PDF, PLACE, PNG, Weather, user
from tongues import BOTH, CLAUDE, GPT, KEYS, chat, dropped, message, text_of
from twice import KEY, anthropic, openai

SYSTEM = {"role": "system", "content": "Be brief."}
#: Nothing is kept of such a call, nor does it get what is.
APART = {"extra_headers": {"Cache-Control": "no-store"}}


def claude_directly(mock, **ask):
    with anthropic(mock.url, api_key=KEYS["ANTHROPIC_API_KEY"]) as client:
        return client.messages.create(**{"model": CLAUDE, "max_tokens": 4096, **ask})


def gpt_directly(mock, **ask):
    with openai(mock.url, api_key=KEYS["OPENAI_API_KEY"]) as client:
        return client.chat.completions.create(**{"model": GPT, **ask})


def test_claude_says_the_same_to_openais_sdk(mock, translator):
    direct = claude_directly(mock, system="Be brief.", messages=[user("plain")])
    with openai(translator.url) as client:
        answer = chat(client, messages=[SYSTEM, user("plain")])
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", direct.content[0].text)
    assert (choice.finish_reason, choice.message.tool_calls, choice.message.refusal) == ("stop", None, None)
    assert (answer.object, answer.model) == ("chat.completion", CLAUDE) and answer.id and answer.created
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (direct.usage.input_tokens, direct.usage.output_tokens)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_gpt_says_the_same_to_anthropics_sdk(mock, translator):
    direct = gpt_directly(mock, messages=[SYSTEM, user("plain")])
    with anthropic(translator.url) as client:
        answer = message(client, system="Be brief.", messages=[user("plain")])
    [block] = answer.content
    assert (block.type, block.text) == ("text", direct.choices[0].message.content)
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", GPT) and answer.id
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens) == (direct.usage.prompt_tokens, direct.usage.completion_tokens)


def test_the_callers_key_is_for_nobody_else(mock, translator):
    for connect, call in BOTH.values():
        with connect(translator.url) as client:
            call(client)
    claude, gpt = mock.requests()
    assert (claude.path, claude.header("x-api-key")) == ("/v1/messages", KEYS["ANTHROPIC_API_KEY"])
    assert gpt.path == "/v1/chat/completions"
    assert gpt.header("authorization") == f"Bearer {KEYS['OPENAI_API_KEY']}"
    for request in (claude, gpt):
        assert all(KEY not in value for _, value in request.headers)
    assert claude.header("authorization") is None and gpt.header("x-api-key") is None
    assert gpt.header("anthropic-version") is None


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("interval", ["0s", "20ms"])
def test_a_stream_over_http2_waits_for_nothing(mock, gate_with, which, interval):
    """Events that have no counterpart, such as signs of life, do not hold up what comes behind them."""
    mock.limits(chunk_interval=interval)
    config = "".join(f'[providers.{name}]\nhttp = "2"\n' for name in ("openai", "anthropic"))
    connect, call = BOTH[which]
    # Far more than it takes, and less than anything that would wake a stream by accident.
    with connect(gate_with(env=KEYS, config=config).url, max_retries=0, timeout=3) as client:
        for number in range(5):
            assert text_of(which, list(call(client, f"number {number}", stream=True)))
    assert {request.version for request in mock.requests()} == {"HTTP/2.0"}


@pytest.mark.parametrize("which", BOTH)
def test_a_stream_is_the_plain_answer_in_pieces(mock, translator, which):
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        plain = call(client, **APART)
        events = list(call(client, stream=True, **APART))
    assert mock.arrived() == 2 and mock.requests()[1].json()["stream"] is True
    assert text_of(which, events) == text_of(which, plain)
    if which == "chat":
        assert events[0].choices[0].delta.role == "assistant"
        assert [chunk.choices[0].finish_reason for chunk in events[-2:]] == [None, "stop"]
        assert sum(bool(chunk.choices[0].delta.content) for chunk in events) == 8
        assert {(chunk.id, chunk.model, chunk.created) for chunk in events} == {(events[0].id, CLAUDE, events[0].created)}
    else:
        assert [event.type for event in events] == [
            "message_start",
            "content_block_start",
            *["content_block_delta"] * 8,
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert (events[0].message.role, events[0].message.model) == ("assistant", GPT)
        assert events[-2].delta.stop_reason == "end_turn"


def test_openais_stream_helper_on_claude(mock, translator):
    direct = claude_directly(mock, messages=[user("helper")])
    with openai(translator.url) as client:
        with client.chat.completions.stream(model=CLAUDE, messages=[user("helper")]) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            completion = stream.get_final_completion()
    assert "".join(deltas) == completion.choices[0].message.content == direct.content[0].text
    assert completion.choices[0].finish_reason == "stop" and completion.usage is None


def test_anthropics_stream_helper_on_gpt(mock, translator):
    direct = gpt_directly(mock, messages=[user("helper")])
    with anthropic(translator.url) as client:
        with client.messages.stream(model=GPT, max_tokens=400, messages=[user("helper")]) as stream:
            texts = list(stream.text_stream)
            final = stream.get_final_message()
    assert "".join(texts) == final.content[0].text == direct.choices[0].message.content
    assert final.stop_reason == "end_turn"
    # What is told at the beginning can only be a guess; what counts comes at the end.
    assert (final.usage.input_tokens, final.usage.output_tokens) == (
        direct.usage.prompt_tokens,
        direct.usage.completion_tokens,
    )


def test_usage_of_a_chat_stream_comes_to_those_who_asked(mock, translator):
    direct = claude_directly(mock, messages=[user("usage")])
    with openai(translator.url) as client:
        told = list(chat(client, "usage", stream=True, stream_options={"include_usage": True}))
        untold = list(chat(client, "usage", stream=True))
    assert told[-1].choices == [] and all(chunk.usage is None for chunk in told[:-1])
    usage = told[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (direct.usage.input_tokens, direct.usage.output_tokens)
    assert all(chunk.usage is None and chunk.choices for chunk in untold)


def test_a_chat_that_claude_caches_tells_what_was_read_of_it(mock, translator):
    part = {"type": "text", "text": "word " * 2000, "prompt_cache_breakpoint": {"mode": "explicit"}}
    with openai(translator.url) as client:
        ask = lambda text: chat(client, messages=[user([part]), user(text)]).usage  # noqa: E731
        first, second = ask("one"), ask("two")
    assert first.prompt_tokens_details.cached_tokens == 0
    read = second.prompt_tokens_details.cached_tokens
    # Read tokens are part of the prompt here, and beside it there.
    assert 1024 < read < second.prompt_tokens
    assert mock.requests()[0].json()["messages"][0]["content"][0]["cache_control"]["type"] == "ephemeral"


def test_a_message_whose_prompt_gpt_has_cached_tells_what_was_read_of_it(mock, translator):
    direct = gpt_directly(mock, messages=[{"role": "system", "content": "other " * 2000}, user("one")])
    with anthropic(translator.url) as client:
        ask = lambda text: message(client, text, system="words " * 2000).usage  # noqa: E731
        first, second = ask("one"), ask("two")
    assert first.cache_read_input_tokens == 0 and first.input_tokens == direct.usage.prompt_tokens
    assert second.cache_read_input_tokens > 1024
    assert second.input_tokens + second.cache_read_input_tokens == first.input_tokens


@pytest.mark.parametrize("model", [CLAUDE, "claude-haiku-4-5", "claude-opus-5-5"])
def test_structured_output_of_claude(translator, model):
    with openai(translator.url) as client:
        plain = client.chat.completions.parse(model=model, messages=[user("parse")], response_format=Weather)
        with client.chat.completions.stream(
            model=model, messages=[user("parse a stream")], response_format=Weather
        ) as stream:
            streamed = stream.get_final_completion()
    for answer in (plain, streamed):
        assert isinstance(answer.choices[0].message.parsed, Weather)


@pytest.mark.parametrize("model", [GPT, "gpt-5-mini"])
def test_structured_output_of_gpt(translator, model):
    ask = {"model": model, "max_tokens": 2000, "output_format": Weather}
    with anthropic(translator.url) as client:
        plain = client.messages.parse(messages=[user("parse")], **ask)
        with client.messages.stream(messages=[user("parse a stream")], **ask) as stream:
            streamed = stream.get_final_message()
    for answer in (plain, streamed):
        assert isinstance(answer.parsed_output, Weather)


def test_a_schema_given_as_it_is(mock, translator):
    chat_form = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE, "strict": True}}
    with openai(translator.url) as client, anthropic(translator.url) as claude:
        chat(client, response_format=chat_form)
        message(claude, output_config={"format": {"type": "json_schema", "schema": PLACE}})
    to_claude, to_gpt = (request.json() for request in mock.requests())
    assert to_claude["output_config"]["format"] == {"type": "json_schema", "schema": PLACE}
    assert to_gpt["response_format"]["json_schema"]["schema"] == PLACE


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
def test_a_stop_sequence(mock, translator, which, streams):
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        whole = text_of(which, call(client))
        stop = whole.split()[5]
        field = "stop" if which == "chat" else "stop_sequences"
        answer = call(client, stream=streams, **{field: [stop, "never said"]})
        answer = list(answer) if streams else answer
    assert mock.requests()[1].json()["stop_sequences" if which == "chat" else "stop"] == [stop, "never said"]
    assert text_of(which, answer) == whole[: whole.find(stop)]
    if which == "chat":
        assert (answer[-1] if streams else answer).choices[0].finish_reason == "stop"
    else:
        # OpenAI does not tell that it was a stop sequence.
        assert (answer[-2].delta if streams else answer).stop_reason == "end_turn"


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
def test_a_limit_of_tokens(translator, which, streams):
    connect, call = BOTH[which]
    with connect(translator.url) as client:
        limit = {"max_completion_tokens": 5} if which == "chat" else {"max_tokens": 5}
        if streams and which == "chat":
            limit["stream_options"] = {"include_usage": True}
        answer = call(client, stream=streams, **limit)
        answer = list(answer) if streams else answer
    assert 0 < len(text_of(which, answer).encode()) <= 20
    if which == "chat":
        ended, counted = (answer[-2], answer[-1]) if streams else (answer, answer)
        assert (ended.choices[0].finish_reason, counted.usage.completion_tokens) == ("length", 5)
    else:
        ended = answer[-2] if streams else answer
        assert (ended.delta if streams else ended).stop_reason == "max_tokens"
        assert ended.usage.output_tokens == 5


def test_the_old_name_of_the_limit_and_a_limit_for_models_that_know_only_the_new_one(mock, translator):
    with openai(translator.url) as client, anthropic(translator.url) as claude:
        assert chat(client, max_tokens=5).choices[0].finish_reason == "length"
        assert message(claude, model="gpt-5-mini", max_tokens=5).stop_reason == "max_tokens"
    to_claude, to_gpt = (request.json() for request in mock.requests())
    assert to_claude["max_tokens"] == 5
    assert to_gpt["max_completion_tokens"] == 5 and "max_tokens" not in to_gpt


def test_system_prompts(mock, translator):
    instructions = [SYSTEM, {"role": "developer", "content": "Be kind."}]
    direct = claude_directly(
        mock,
        system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        messages=[user("why?")],
    )
    with openai(translator.url) as client:
        answer = chat(client, messages=[*instructions, user("why?")])
    assert answer.choices[0].message.content == direct.content[0].text

    direct = gpt_directly(
        mock, messages=[SYSTEM, {"role": "system", "content": "Be kind."}, user("why?")]
    )
    with anthropic(translator.url) as client:
        system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
        answer = message(client, "why?", system=system)
    assert answer.content[0].text == direct.choices[0].message.content


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5"])
def test_instructions_in_the_middle_of_a_chat(mock, translator, model):
    with openai(translator.url) as client:
        turns = [SYSTEM, user("one")]
        turns.append(chat(client, model=model, messages=turns).choices[0].message)
        turns += [{"role": "developer", "content": "From now on in French."}, user("two")]
        answer = chat(client, model=model, messages=turns)
    assert answer.choices[0].message.content
    first, second = (request.json() for request in mock.requests())
    assert second["system"] == first["system"], "what stood before everything stays as it was"
    assert second["messages"][0] == first["messages"][0]
    later = str(second["messages"][2:])
    assert "From now on in French." in later and "two" in later


def chat_parts():
    return [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    ]


def claude_parts():
    return [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
    ]


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("streams", [False, True])
def test_images_and_documents(mock, translator, which, streams):
    connect, call = BOTH[which]
    content = {"chat": chat_parts, "message": claude_parts}[which]()
    with connect(translator.url) as client:
        answer = call(client, messages=[user(content)], stream=streams)
        answer = list(answer) if streams else answer
    assert text_of(which, answer).startswith("I see 1 images and 1 documents.")
    text, image, document = mock.requests()[0].json()["messages"][0]["content"]
    assert text["text"] == "what is this?"
    if which == "chat":
        assert [part["source"] for part in (image, document)] == [part["source"] for part in claude_parts()[1:]]
    else:
        assert image["image_url"]["url"] == chat_parts()[1]["image_url"]["url"]
        assert document["file"]["file_data"] == chat_parts()[2]["file"]["file_data"]


@pytest.mark.parametrize(
    "more, param",
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": [user([{"type": "file", "file": {"file_id": "file-of-another"}}])]}, "messages[0].content[0].file"),
        ({"messages": [user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])]}, "messages[0].content[0]"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_what_claude_can_not_be_asked_is_a_bad_request_that_names_it(mock, translator, more, param, streams):
    with openai(translator.url) as client, pytest.raises(OpenAiBadRequest) as raised:
        chat(client, stream=streams, **more)
    assert param in raised.value.param and raised.value.code == "invalid_request"
    assert raised.value.response.headers["x-sluicegate-reason"] == "not_translatable"
    assert mock.arrived() == 0


@pytest.mark.parametrize(
    "more, named",
    [
        ({"extra_body": {"mcp_servers": [{"type": "url", "url": "https://mcp.example", "name": "m"}]}}, "mcp_servers"),
        ({"extra_body": {"thread": {"type": "create"}}}, "thread"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
        ({"messages": [user([{"type": "image", "source": {"type": "file", "file_id": "file_1"}}])]}, "messages[0]"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_what_gpt_can_not_be_asked_is_a_bad_request_that_names_it(mock, translator, more, named, streams):
    with anthropic(translator.url) as client, pytest.raises(AnthropicBadRequest) as raised:
        message(client, stream=streams, **more)
    assert raised.value.body["error"]["type"] == "invalid_request_error"
    assert named in raised.value.body["error"]["message"]
    assert raised.value.response.headers["x-sluicegate-reason"] == "not_translatable"
    assert mock.arrived() == 0


def test_hints_that_claude_does_not_take_are_left_out_and_named(mock, translator):
    with openai(translator.url) as client:
        raw = chat(client.with_raw_response, model="claude-opus-4-7", temperature=0.3, seed=7)
        assert {"temperature", "seed"} <= set(dropped(raw))
        assert raw.parse().choices[0].message.content
        kept = chat(client.with_raw_response, model="claude-sonnet-4-5", temperature=0.3)
        assert dropped(kept) == []
        streamed = chat(client.with_raw_response, "again", seed=7, stream=True)
        assert dropped(streamed) == ["seed"] and list(streamed.parse())
    refusing, taking, _ = (request.json() for request in mock.requests())
    assert "temperature" not in refusing and "seed" not in refusing
    assert taking["temperature"] == 0.3


def test_hints_that_gpt_does_not_take_are_left_out_and_named(mock, translator):
    with anthropic(translator.url) as client:
        hints = {"extra_body": {"top_k": 5, "temperature": 0.3}}
        raw = message(client.with_raw_response, **hints)
        assert "top_k" in dropped(raw) and "temperature" not in dropped(raw)
        assert raw.parse().content[0].text
        raw = message(client.with_raw_response, model="gpt-5-mini", max_tokens=2000, **hints)
        assert {"temperature", "top_k"} <= set(dropped(raw))
    taking, refusing = (request.json() for request in mock.requests())
    assert taking["temperature"] == 0.3 and "top_k" not in taking
    assert "temperature" not in refusing and "top_k" not in refusing


def test_effort_and_thinking(mock, translator):
    with openai(translator.url) as client, anthropic(translator.url) as claude:
        thoughtful = chat(client, reasoning_effort="high", max_completion_tokens=4000)
        reasons = message(
            claude, model="gpt-5-mini", max_tokens=20_000, thinking={"type": "enabled", "budget_tokens": 18_000}
        )
        plain = message(claude, model="gpt-5-mini", max_tokens=2000, output_config={"effort": "low"})
    assert thoughtful.choices[0].message.reasoning_content.startswith("First, ")
    assert thoughtful.usage.completion_tokens_details.reasoning_tokens > 0
    assert reasons.content[-1].text and plain.content[-1].text
    to_claude, hard, lightly = (request.json() for request in mock.requests())
    assert to_claude["thinking"]["type"] == "adaptive" and to_claude["output_config"]["effort"] == "high"
    assert (hard["reasoning_effort"], lightly["reasoning_effort"]) == ("high", "low")
    assert reasons.usage.output_tokens > plain.usage.output_tokens


async def test_asynchronous_openai_client(mock, translator):
    direct = claude_directly(mock, messages=[user("plain")])
    async with openai(translator.url, AsyncOpenAI) as client:
        plain = await chat(client, "plain")
        chunks = [chunk async for chunk in await chat(client, "plain", stream=True, **APART)]
        async with client.chat.completions.stream(model=CLAUDE, messages=[user("plain")]) as stream:
            final = await stream.get_final_completion()
        parsed = await client.chat.completions.parse(
            model=CLAUDE, messages=[user("parse")], response_format=Weather
        )
    words = direct.content[0].text
    assert plain.choices[0].message.content == text_of("chat", chunks) == words
    assert final.choices[0].message.content == words
    assert isinstance(parsed.choices[0].message.parsed, Weather)


async def test_asynchronous_anthropic_client(mock, translator):
    direct = gpt_directly(mock, messages=[user("plain")])
    async with anthropic(translator.url, AsyncAnthropic) as client:
        plain = await message(client, "plain")
        events = [event async for event in await message(client, "plain", stream=True, **APART)]
        async with client.messages.stream(model=GPT, max_tokens=400, messages=[user("plain")]) as stream:
            final = await stream.get_final_message()
        parsed = await client.messages.parse(
            model=GPT, max_tokens=400, messages=[user("parse")], output_format=Weather
        )
    words = direct.choices[0].message.content
    assert plain.content[0].text == text_of("message", events) == words
    assert final.content[0].text == words
    assert isinstance(parsed.parsed_output, Weather)
