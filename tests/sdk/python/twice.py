"""Runs the same code against the provider and through the gate, and compares all that both sides saw.

What the caller sees must be equal. What the provider receives must be equal byte for byte, but for the splice
that asks for usage on streams, and the headers that belong to one connection.
"""

import json
import re

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

KEY = "sk-of-the-caller"
#: Belong to a connection, or are the gate's to write.
OF_ONE_HOP = {"host", "connection", "accept-encoding", "content-length", "transfer-encoding"}
ASKS_USAGE = {"/v1/chat/completions", "/v1/completions"}


def openai(url, cls=OpenAI, **options):
    return cls(**{"api_key": KEY, "base_url": f"{url}/v1", **options})


def anthropic(url, cls=Anthropic, **options):
    return cls(**{"api_key": KEY, "base_url": url, **options})


class Twice:
    def __init__(self, mock, gate):
        self.mock = mock
        self.gate = gate
        #: What arrived at the provider through the gate.
        self.received = []

    def openai(self, run, **options):
        return self._sync(openai, run, options)

    def anthropic(self, run, **options):
        return self._sync(anthropic, run, options)

    async def openai_async(self, run, **options):
        return await self._async(openai, AsyncOpenAI, run, options)

    async def anthropic_async(self, run, **options):
        return await self._async(anthropic, AsyncAnthropic, run, options)

    def _sync(self, connect, run, options):
        outcomes = []
        for url in (self.mock.url, self.gate.url):
            self.mock.reset()
            with connect(url, **options) as client:
                outcomes.append((outcome(lambda: run(client)), self.mock.requests()))
        return self._compare(*outcomes)

    async def _async(self, connect, cls, run, options):
        outcomes = []
        for url in (self.mock.url, self.gate.url):
            self.mock.reset()
            async with connect(url, cls, **options) as client:
                outcomes.append((await outcome_async(run, client), self.mock.requests()))
        return self._compare(*outcomes)

    def _compare(self, direct, gated):
        (seen, sent), (seen_gated, sent_gated) = direct, gated
        self.received = sent_gated
        assert told(seen_gated) == told(seen)
        assert len(sent_gated) == len(sent)
        for ours, theirs in zip(sent_gated, sent):
            same_request(ours, theirs)
        return seen_gated


def outcome(run):
    """What `run` gives, or the error that it ends in."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return error


async def outcome_async(run, client):
    try:
        return await run(client)
    except Exception as error:  # noqa: BLE001
        return error


def told(value):
    """A value as plain data, without what differs from call to call."""
    if isinstance(value, BaseModel):
        return told(value.model_dump(warnings=False))
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items() if key != "request_id"}
    if isinstance(value, (list, tuple)):
        return [told(item) for item in value]
    if isinstance(value, Exception):
        return [type(value).__name__, getattr(value, "status_code", None), told(getattr(value, "body", None))]
    return value


def same_request(gated, direct):
    assert (gated.method, gated.path, gated.version) == (direct.method, direct.path, direct.version)
    assert end_to_end(gated) == end_to_end(direct)
    for request in (gated, direct):
        length = request.header("content-length")
        assert length is None or int(length) == len(request.body)
    same_body(gated, direct)


def end_to_end(request):
    headers = [(name, value) for name, value in request.headers if name not in OF_ONE_HOP]
    return sorted((name, without_boundary(value, request)) for name, value in headers)


def boundary(request):
    found = re.search(r"boundary=([^;]+)", request.header("content-type") or "")
    return found and found[1]


def without_boundary(value, request):
    """The boundary of a form is drawn anew for each request."""
    line = boundary(request)
    return value.replace(line, "BOUNDARY") if line else value


def same_body(gated, direct):
    if line := boundary(direct):
        ours = gated.body.replace(boundary(gated).encode(), line.encode())
        assert ours == direct.body
    elif asks_for_usage(direct):
        only_spliced(gated.body, direct.body)
    else:
        assert gated.body == direct.body


def asks_for_usage(request):
    """Whether the gate has to ask for usage in place of this caller."""
    if request.path not in ASKS_USAGE:
        return False
    body = request.json()
    options = body.get("stream_options") or {}
    return body.get("stream") is True and options.get("include_usage") is not True


def only_spliced(gated, direct):
    """`gated` is `direct` with usage asked for, and every other byte is as it was."""
    wanted = json.loads(direct)
    options = wanted.get("stream_options") or {}
    wanted["stream_options"] = {**options, "include_usage": True}
    assert json.loads(gated) == wanted
    start = shared_prefix(gated, direct)
    end = shared_prefix(gated[::-1], direct[::-1])
    replaced = len("false") if "include_usage" in options else 0
    assert start + end >= len(direct) - replaced, f"more than a splice:\n{gated}\n{direct}"


def shared_prefix(one, other):
    pairs = zip(one, other)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
