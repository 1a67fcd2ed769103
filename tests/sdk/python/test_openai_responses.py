"""The Responses API by OpenAI's SDK."""

import json

from openai import NotFoundError

from samples import PDF, PNG, Weather, response_tools, user

MODEL = "gpt-4.1"


def test_plain(twice):
    def run(client):
        return client.responses.create(model=MODEL, instructions="be brief", input="plain")

    answer = twice.openai(run)
    assert answer.status == "completed" and answer.output_text


def test_stream(twice):
    events = twice.openai(lambda client: list(client.responses.create(model=MODEL, input="stream", stream=True)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text


def test_stream_helper(twice):
    def run(client):
        with client.responses.stream(model=MODEL, input="helper") as stream:
            kinds = [event.type for event in stream]
            return kinds, stream.get_final_response()

    kinds, answer = twice.openai(run)
    assert kinds[-1] == "response.completed" and answer.output_text


def test_input_items(twice):
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    ]
    answer = twice.openai(lambda client: client.responses.create(model=MODEL, input=[user(content)]))
    assert answer.output_text.startswith("I see 1 images and 1 documents.")


def test_tools_and_their_results(twice):
    tools = response_tools("weather", "news")

    def run(client):
        turns = [user("please use two tools")]
        first = client.responses.create(model=MODEL, input=turns, tools=tools)
        turns += first.output
        for call in first.output:
            turns.append({"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"})
        return first, client.responses.create(model=MODEL, input=turns, tools=tools)

    first, second = twice.openai(run)
    assert [call.name for call in first.output] == ["weather", "news"]
    assert all(json.loads(call.arguments)["city"] for call in first.output)
    assert second.output_text


def test_streamed_tools(twice):
    def run(client):
        with client.responses.stream(
            model=MODEL, input="please use two tools", tools=response_tools("weather", "news")
        ) as stream:
            kinds = [event.type for event in stream]
            return kinds, stream.get_final_response()

    kinds, answer = twice.openai(run)
    assert kinds.count("response.function_call_arguments.done") == 2
    assert [call.name for call in answer.output] == ["weather", "news"]


def test_structured_output(twice):
    answer = twice.openai(
        lambda client: client.responses.parse(model=MODEL, input="parse", text_format=Weather)
    )
    assert isinstance(answer.output_parsed, Weather)


def test_encrypted_reasoning_goes_back_unaltered(twice):
    asks = {
        "model": "gpt-5-mini",
        "store": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }

    def run(client):
        first = client.responses.create(input="think", **asks)
        turns = [user("think"), *first.output, user("go on")]
        return first, client.responses.create(input=turns, **asks)

    first, second = twice.openai(run)
    assert first.output[0].type == "reasoning" and first.output[0].encrypted_content
    assert second.status == "completed"


def test_sub_paths_reach_the_provider(twice):
    error = twice.openai(lambda client: client.responses.input_items.list("resp_1", limit=3).data)
    assert isinstance(error, NotFoundError) and "Unknown request URL" in error.message
    assert twice.received[0].path == "/v1/responses/resp_1/input_items?limit=3"
