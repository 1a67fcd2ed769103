// Each SDK asking for a model of the other vendor, through a gate that has keys for both.

import { rig } from "./rig.mjs";
import { CLAUDE, GPT, user } from "./samples.mjs";
import { anthropic, openai } from "./twice.mjs";

/** What the gate asks with. A caller's own key is no other vendor's. */
export const KEYS = { OPENAI_API_KEY: "sk-gate-openai", ANTHROPIC_API_KEY: "sk-gate-anthropic" };

export const translator = (t, options) => rig(t, { env: KEYS, ...options });

/** OpenAI's SDK asks Claude. */
export const chat = {
  name: "OpenAI's SDK on Claude",
  connect: openai,
  call: (client, { text = "hello", ...more } = {}, options) =>
    client.chat.completions.create({ model: CLAUDE, messages: [user(text)], ...more }, options),
};

/** Anthropic's SDK asks GPT. */
export const message = {
  name: "Anthropic's SDK on GPT",
  connect: anthropic,
  call: (client, { text = "hello", ...more } = {}, options) =>
    client.messages.create({ model: GPT, max_tokens: 400, messages: [user(text)], ...more }, options),
};

export const BOTH = [chat, message];

/** The words of a plain answer, or of all events of a stream. */
export function textOf(form, answer) {
  if (!Array.isArray(answer)) return form === chat ? answer.choices[0].message.content : answer.content[0].text;
  if (form === chat) return answer.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("");
  return answer.map((event) => event.delta?.text ?? "").join("");
}

export const dropped = (response) => response.headers.get("x-sluicegate-dropped")?.split(", ") ?? [];
