// Chat Completions and legacy completions by OpenAI's SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { rig } from "./rig.mjs";
import { GPT, PDF, PNG, chatTools, listed, user } from "./samples.mjs";

const Weather = z.object({ city: z.string(), degrees: z.number(), sunny: z.boolean() });

test("plain", async (t) => {
  const { twice } = await rig(t);
  const answer = await twice.openai((client) =>
    client.chat.completions.create({ model: GPT, messages: [user("plain")], n: 2, temperature: 0.3 }),
  );
  assert.equal(answer.choices.length, 2);
  assert.ok(answer.usage.total_tokens > 0);
});

test("stream", async (t) => {
  const { twice } = await rig(t);
  const chunks = await twice.openai(async (client) =>
    listed(await client.chat.completions.create({ model: GPT, messages: [user("stream")], stream: true })),
  );
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
  assert.ok(chunks.every((chunk) => !chunk.usage && chunk.choices.length));
  // The gate asked for usage, and the caller did not.
  assert.deepEqual(twice.received[0].json().stream_options, { include_usage: true });
});

for (const stream_options of [{ include_usage: false }, { include_obfuscation: false }, {}]) {
  test(`usage stays hidden with ${JSON.stringify(stream_options)}`, async (t) => {
    const { twice } = await rig(t);
    const ask = { model: GPT, messages: [user("hidden")], stream: true, stream_options };
    const chunks = await twice.openai(async (client) => listed(await client.chat.completions.create(ask)));
    assert.ok(chunks.every((chunk) => !chunk.usage && chunk.choices.length));
  });
}

test("usage is there for those who asked", async (t) => {
  const { twice } = await rig(t);
  const stream_options = { include_usage: true };
  const ask = { model: GPT, messages: [user("usage")], stream: true, stream_options };
  const chunks = await twice.openai(async (client) => listed(await client.chat.completions.create(ask)));
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.ok(chunks.at(-1).usage.total_tokens > 0);
});

test("stream helper", async (t) => {
  const { twice } = await rig(t);
  const { deltas, completion } = await twice.openai(async (client) => {
    const deltas = [];
    const stream = client.chat.completions.stream({ model: GPT, messages: [user("helper")] });
    stream.on("content", (delta) => deltas.push(delta));
    return { deltas, completion: await stream.finalChatCompletion() };
  });
  assert.equal(deltas.join(""), completion.choices[0].message.content);
});

for (const streams of [false, true]) {
  test(`tools and their results, ${streams ? "streamed" : "plain"}`, async (t) => {
    const { twice } = await rig(t);
    const ask = (client, messages) => {
      const request = { model: GPT, messages, tools: chatTools };
      const { completions } = client.chat;
      return streams ? completions.stream(request).finalChatCompletion() : completions.create(request);
    };
    const { first, second } = await twice.openai(async (client) => {
      const messages = [user("please use two tools")];
      const first = await ask(client, messages);
      const { role, content, tool_calls } = first.choices[0].message;
      messages.push({ role, content, tool_calls });
      for (const { id } of tool_calls) messages.push({ role: "tool", tool_call_id: id, content: "18" });
      return { first, second: await ask(client, messages) };
    });
    const calls = first.choices[0].message.tool_calls.map((call) => call.function);
    assert.deepEqual(calls.map((call) => call.name), ["weather", "news"]);
    assert.ok(calls.every((call) => typeof JSON.parse(call.arguments).city === "string"));
    assert.equal(second.choices[0].finish_reason, "stop");
  });
}

test("images and documents", async (t) => {
  const { twice } = await rig(t);
  const content = [
    { type: "text", text: "what is this?" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } },
  ];
  const answer = await twice.openai((client) =>
    client.chat.completions.create({ model: GPT, messages: [user(content)] }),
  );
  assert.match(answer.choices[0].message.content, /^I see 1 images and 1 documents\./);
});

test("structured output", async (t) => {
  const { twice } = await rig(t);
  const response_format = zodResponseFormat(Weather, "weather");
  const answer = await twice.openai((client) =>
    client.chat.completions.parse({ model: GPT, messages: [user("parse")], response_format }),
  );
  Weather.parse(answer.choices[0].message.parsed);
});

test("fields and headers that nobody knows reach the provider", async (t) => {
  const { twice } = await rig(t);
  const brand_new = { é: [1.5, 1e30, null, "\u2028"] };
  await twice.openai((client) =>
    client.chat.completions.create(
      { model: GPT, messages: [{ ...user("new"), shade: "blue" }], brand_new },
      { headers: { "x-brand-new": "yes" }, query: { trial: "a b" } },
    ),
  );
  const [received] = twice.received;
  assert.deepEqual(received.json().brand_new, brand_new);
  assert.equal(received.header("x-brand-new"), "yes");
  assert.match(received.path, /^\/v1\/chat\/completions\?trial=a/);
});

test("completions", async (t) => {
  const { twice } = await rig(t);
  const model = "gpt-3.5-turbo-instruct";
  const { plain, chunks } = await twice.openai(async (client) => ({
    plain: await client.completions.create({ model, prompt: ["one", "two"], max_tokens: 20 }),
    chunks: await listed(await client.completions.create({ model, prompt: "one", stream: true })),
  }));
  assert.equal(plain.choices.length, 2);
  assert.ok(chunks.every((chunk) => !chunk.usage && chunk.choices.length));
});
