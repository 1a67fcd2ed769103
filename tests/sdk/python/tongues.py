"""Each SDK asking for a model of the other vendor, through a gate that has keys for both."""

from samples import user
from twice import anthropic, openai

CLAUDE = "claude-sonnet-4-6"
GPT = "gpt-4.1"
#: What the gate asks with. A caller's own key is no other vendor's.
KEYS = {"OPENAI_API_KEY": "sk-gate-openai", "ANTHROPIC_API_KEY": "sk-gate-anthropic"}


def chat(client, text="hello", **more):
    """OpenAI's SDK asks Claude."""
    return client.chat.completions.create(**{"model": CLAUDE, "messages": [user(text)], **more})


def message(client, text="hello", **more):
    """Anthropic's SDK asks GPT."""
    return client.messages.create(**{"model": GPT, "max_tokens": 400, "messages": [user(text)], **more})


#: Which SDK, and the call that it makes.
BOTH = {"chat": (openai, chat), "message": (anthropic, message)}


def text_of(which, answer):
    """The words of a plain answer, or of all events of a stream."""
    if not isinstance(answer, list):
        return answer.choices[0].message.content if which == "chat" else answer.content[0].text
    if which == "chat":
        deltas = [choice.delta.content for chunk in answer for choice in chunk.choices]
    else:
        deltas = [event.delta.text for event in answer if event.type == "content_block_delta"]
    return "".join(delta or "" for delta in deltas)


def dropped(raw):
    """The hints that the gate says it left out."""
    return [name for name in raw.headers.get("x-sluicegate-dropped", "").split(", ") if name]
