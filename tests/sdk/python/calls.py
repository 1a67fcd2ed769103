"""One small call in each form that the tests about errors, deadlines and hang-ups repeat."""

from twice import anthropic, openai

CHAT = {"model": "gpt-4.1"}
CLAUDE = {"model": "claude-sonnet-4-6", "max_tokens": 256}


def chat(client, text="hello", **more):
    return client.chat.completions.create(messages=[{"role": "user", "content": text}], **CHAT, **more)


def respond(client, text="hello", **more):
    return client.responses.create(input=text, **CHAT, **more)


def message(client, text="hello", **more):
    return client.messages.create(messages=[{"role": "user", "content": text}], **CLAUDE, **more)


#: Which SDK, and the call that it makes.
BOTH = {"chat": (openai, chat), "message": (anthropic, message)}
ALL = {**BOTH, "respond": (openai, respond)}
