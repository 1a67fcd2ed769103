"""Inputs that several tests share: tools, an image, a document, a schema."""

import base64

from pydantic import BaseModel

#: The smallest image and document that say what they are; the mock looks no further.
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(64))).decode()
PDF = base64.b64encode(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + b"x" * 64 + b"\n%%EOF").decode()

PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


class Weather(BaseModel):
    """What structured output is asked to fit."""

    city: str
    degrees: int
    sunny: bool


def chat_tools(*names):
    return [{"type": "function", "function": {"name": name, "parameters": PLACE}} for name in names]


def response_tools(*names):
    return [{"type": "function", "name": name, "parameters": PLACE, "strict": True} for name in names]


def claude_tools(*names):
    return [{"name": name, "description": name, "input_schema": PLACE} for name in names]


def user(text):
    return {"role": "user", "content": text}
