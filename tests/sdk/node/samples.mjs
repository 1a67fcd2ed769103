// Inputs that several tests share, and one small call in each form.

import { anthropic, openai } from "./twice.mjs";

export const GPT = "gpt-4.1";
export const CLAUDE = "claude-sonnet-4-6";

/** The smallest image and document that say what they are; the mock looks no further. */
export const PNG = Buffer.from("\x89PNG\r\n\x1a\n and no more", "latin1").toString("base64");
export const PDF = Buffer.from("%PDF-1.4\n and no more\n%%EOF", "latin1").toString("base64");

export const PLACE = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};

export const user = (content) => ({ role: "user", content });
export const chatTools = ["weather", "news"].map((name) => ({
  type: "function",
  function: { name, parameters: PLACE },
}));
export const responseTools = ["weather", "news"].map((name) => ({
  type: "function",
  name,
  parameters: PLACE,
  strict: true,
}));
export const claudeTools = ["weather", "news"].map((name) => ({ name, input_schema: PLACE }));

export async function listed(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** What came of a stream, and the error that ended it. */
export async function broken(stream) {
  const events = [];
  try {
    for await (const event of stream) events.push(event);
  } catch (error) {
    return { events, error };
  }
  return { events };
}

export const chat = {
  name: "chat",
  connect: openai,
  call: (client, { text = "hello", ...more } = {}, options) =>
    client.chat.completions.create({ model: GPT, messages: [user(text)], ...more }, options),
};
export const response = {
  name: "response",
  connect: openai,
  call: (client, { text = "hello", ...more } = {}, options) =>
    client.responses.create({ model: GPT, input: text, ...more }, options),
};
export const message = {
  name: "message",
  connect: anthropic,
  call: (client, { text = "hello", ...more } = {}, options) =>
    client.messages.create({ model: CLAUDE, max_tokens: 256, messages: [user(text)], ...more }, options),
};
export const BOTH = [chat, message];
export const ALL = [chat, response, message];
