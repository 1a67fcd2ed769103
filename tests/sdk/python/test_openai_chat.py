"""Chat Completions and legacy completions by OpenAI's SDK."""

import json

import pytest

from samples import PDF, PNG, Weather, chat_tools, user

MODEL = "gpt-4.1"


def test_plain(twice):
    answer = twice.openai(lambda client: client.chat.completions.create(model=MODEL, messages=[user("plain")]))
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_choices_limits_and_stops(twice):
    def run(client):
        return client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": "be brief"}, user("several")],
            n=3,
            max_completion_tokens=5,
            temperature=0.3,
            seed=7,
        )

    answer = twice.openai(run)
    assert [choice.finish_reason for choice in answer.choices] == ["length"] * 3


def test_stream(twice):
    def run(client):
        return list(client.chat.completions.create(model=MODEL, messages=[user("stream")], stream=True))

    chunks = twice.openai(run)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert sum(1 for chunk in chunks if chunk.choices[0].delta.content) == 8
    # The gate asked for usage, and the caller did not.
    assert twice.received[0].json()["stream_options"] == {"include_usage": True}
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("options", [{"include_usage": False}, {"include_obfuscation": False}, {}])
def test_usage_stays_hidden_from_those_who_did_not_ask(twice, options):
    def run(client):
        stream = client.chat.completions.create(
            model=MODEL, messages=[user("hidden")], stream=True, stream_options=options
        )
        return list(stream)

    chunks = twice.openai(run)
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_usage_is_there_for_those_who_asked(twice):
    def run(client):
        stream = client.chat.completions.create(
            model=MODEL, messages=[user("usage")], stream=True, stream_options={"include_usage": True}
        )
        return list(stream)

    chunks = twice.openai(run)
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_stream_helper(twice):
    def run(client):
        with client.chat.completions.stream(model=MODEL, messages=[user("helper")]) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            return deltas, stream.get_final_completion()

    deltas, completion = twice.openai(run)
    assert "".join(deltas) == completion.choices[0].message.content
    assert completion.choices[0].finish_reason == "stop" and completion.usage is None


def test_tools_and_their_results(twice):
    tools = chat_tools("weather", "news")

    def run(client):
        messages = [user("please use two tools")]
        first = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        messages.append(first.choices[0].message)
        for call in first.choices[0].message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 degrees"})
        return first, client.chat.completions.create(model=MODEL, messages=messages, tools=tools)

    first, second = twice.openai(run)
    calls = first.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["weather", "news"]
    assert all(json.loads(call.function.arguments)["city"] for call in calls)
    assert second.choices[0].finish_reason == "stop"


def test_streamed_tools_and_their_results(twice):
    tools = chat_tools("weather", "news")

    def run(client):
        messages = [user("please use two tools")]
        with client.chat.completions.stream(model=MODEL, messages=messages, tools=tools) as stream:
            events = [event.type for event in stream]
            first = stream.get_final_completion()
        messages.append(first.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in first.choices[0].message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "18 degrees"})
        return events, first, list(client.chat.completions.create(model=MODEL, messages=messages, stream=True))

    events, first, second = twice.openai(run)
    assert events.count("tool_calls.function.arguments.done") == 2
    assert [call.function.name for call in first.choices[0].message.tool_calls] == ["weather", "news"]
    assert second[-1].choices[0].finish_reason == "stop"


def test_images_and_documents(twice):
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    ]
    answer = twice.openai(lambda client: client.chat.completions.create(model=MODEL, messages=[user(content)]))
    assert answer.choices[0].message.content.startswith("I see 1 images and 1 documents.")


def test_structured_output(twice):
    def run(client):
        return client.chat.completions.parse(model=MODEL, messages=[user("parse")], response_format=Weather)

    answer = twice.openai(run)
    assert isinstance(answer.choices[0].message.parsed, Weather)


def test_streamed_structured_output(twice):
    def run(client):
        with client.chat.completions.stream(
            model=MODEL, messages=[user("parse a stream")], response_format=Weather
        ) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion()

    answer = twice.openai(run)
    assert isinstance(answer.choices[0].message.parsed, Weather)


def test_a_schema_given_as_it_is(twice):
    schema = Weather.model_json_schema()
    form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": schema}}

    def run(client):
        return client.chat.completions.create(model=MODEL, messages=[user("schema")], response_format=form)

    answer = twice.openai(run)
    Weather.model_validate_json(answer.choices[0].message.content)


def test_reasoning(twice):
    def run(client):
        return client.chat.completions.create(
            model="gpt-5-mini", messages=[user("think")], reasoning_effort="high", max_completion_tokens=500
        )

    assert twice.openai(run).usage.completion_tokens_details.reasoning_tokens > 0


def test_fields_and_headers_that_nobody_knows_reach_the_provider(twice):
    def run(client):
        return client.chat.completions.create(
            model=MODEL,
            messages=[{**user("new"), "shade": "blue"}],
            extra_body={"brand_new": {"é": [1.0, 1e30, None, "\u2028"]}},
            extra_headers={"x-brand-new": "yes"},
            extra_query={"trial": "a b"},
        )

    assert twice.openai(run).choices
    received = twice.received[0]
    assert received.json()["brand_new"] == {"é": [1.0, 1e30, None, "\u2028"]}
    assert received.header("x-brand-new") == "yes"
    assert received.path.startswith("/v1/chat/completions?trial=a")


def test_completions(twice):
    def run(client):
        plain = client.completions.create(model="gpt-3.5-turbo-instruct", prompt=["one", "two"], max_tokens=20)
        stream = client.completions.create(model="gpt-3.5-turbo-instruct", prompt="one", stream=True)
        return plain, list(stream)

    plain, chunks = twice.openai(run)
    assert len(plain.choices) == 2
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason
