// Messages and what belongs to them by Anthropic's SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { toFile } from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

import { rig } from "./rig.mjs";
import { CLAUDE, PDF, PLACE, PNG, claudeTools, listed, user } from "./samples.mjs";

const ASK = { model: CLAUDE, max_tokens: 1024 };

/** The turns that answer every call of `message`. */
function answering({ content }) {
  const calls = content.filter((block) => block.type === "tool_use");
  const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "18 degrees" }));
  return [{ role: "assistant", content }, user(results)];
}

test("plain, stream, helper", async (t) => {
  const { twice } = await rig(t);
  const { plain, events, helped } = await twice.anthropic(async (client) => {
    const texts = [];
    const stream = client.messages.stream({ messages: [user("helper")], ...ASK });
    stream.on("text", (text) => texts.push(text));
    const helped = { message: await stream.finalMessage(), texts };
    const plain = await client.messages.create({ system: "be brief", messages: [user("plain")], ...ASK });
    const asked = await client.messages.create({ messages: [user("stream")], stream: true, ...ASK });
    return { plain, events: await listed(asked), helped };
  });
  assert.equal(plain.stop_reason, "end_turn");
  assert.equal(events[0].type, "message_start");
  assert.equal(events.at(-1).type, "message_stop");
  assert.equal(helped.texts.join(""), helped.message.content[0].text);
  assert.ok(helped.message.usage.output_tokens > 1);
});

for (const streams of [false, true]) {
  const form = streams ? "streamed" : "plain";
  const ask = (client, request) =>
    streams ? client.messages.stream(request).finalMessage() : client.messages.create(request);
  const twoTurns = (more) => async (client) => {
    const messages = [user("please use two tools")];
    const first = await ask(client, { messages, tools: claudeTools, ...ASK, ...more });
    messages.push(...answering(first));
    return { first, second: await ask(client, { messages, tools: claudeTools, ...ASK, ...more }) };
  };

  test(`tools and their results, ${form}`, async (t) => {
    const { twice } = await rig(t);
    const { first, second } = await twice.anthropic(twoTurns({}));
    assert.deepEqual(first.content.map((call) => call.name), ["weather", "news"]);
    assert.ok(first.content.every((call) => typeof call.input.city === "string"));
    assert.equal(second.stop_reason, "end_turn");
  });

  test(`signed thoughts go back unaltered, ${form}`, async (t) => {
    const { twice } = await rig(t);
    const { first, second } = await twice.anthropic(twoTurns({ thinking: { type: "adaptive" } }));
    assert.deepEqual(first.content.map((block) => block.type), ["thinking", "tool_use", "tool_use"]);
    assert.ok(first.content[0].signature);
    assert.equal(second.content[0].type, "thinking");
  });
}

test("images and documents", async (t) => {
  const { twice } = await rig(t);
  const source = (media_type, data) => ({ type: "base64", media_type, data });
  const content = [
    { type: "image", source: source("image/png", PNG) },
    { type: "document", source: source("application/pdf", PDF) },
    { type: "text", text: "what is this?" },
  ];
  const answer = await twice.anthropic((client) => client.messages.create({ messages: [user(content)], ...ASK }));
  assert.match(answer.content[0].text, /^I see 1 images and 1 documents\./);
});

test("structured output", async (t) => {
  const { twice } = await rig(t);
  const Weather = z.object({ city: z.string(), degrees: z.number() });
  const { parsed, given } = await twice.anthropic(async (client) => ({
    parsed: await client.messages.parse({
      messages: [user("parse")],
      output_config: { format: zodOutputFormat(Weather) },
      ...ASK,
    }),
    given: await client.messages.create({
      messages: [user("schema")],
      output_config: { format: { type: "json_schema", schema: PLACE } },
      ...ASK,
    }),
  }));
  Weather.parse(parsed.parsed_output);
  assert.equal(typeof JSON.parse(given.content[0].text).city, "string");
});

test("count_tokens and models", async (t) => {
  const { twice } = await rig(t, { only: "anthropic" });
  const { count, models, one } = await twice.anthropic(async (client) => ({
    count: await client.messages.countTokens({ model: CLAUDE, messages: [user("count me")], tools: claudeTools }),
    models: await listed(client.models.list()),
    one: await client.models.retrieve(CLAUDE),
  }));
  assert.ok(count.input_tokens > 0);
  assert.ok(models.some((model) => model.id === CLAUDE) && one.id === CLAUDE);
});

test("files go up and come back", async (t) => {
  const { twice } = await rig(t);
  const data = Buffer.from(Array.from({ length: 80_000 }, (_, at) => at % 251));
  const { file, content } = await twice.anthropic(async (client) => {
    const file = await client.files.upload({ file: await toFile(data, "a.bin", { type: "application/pdf" }) });
    const answer = await client.files.download(file.id);
    return { file, content: Buffer.from(await answer.arrayBuffer()) };
  });
  assert.equal(file.size_bytes, data.length);
  assert.ok(content.equals(data));
});

test("fields and headers that nobody knows reach the provider", async (t) => {
  const { twice } = await rig(t);
  const brand_new = { é: [1.5, null] };
  const headers = { "anthropic-beta": "brand-new-2027-01-01", "x-brand-new": "yes" };
  await twice.anthropic((client) =>
    client.messages.create({ messages: [user("new")], brand_new, ...ASK }, { headers }),
  );
  const [received] = twice.received;
  assert.deepEqual(received.json().brand_new, brand_new);
  for (const [name, value] of Object.entries(headers)) assert.equal(received.header(name), value);
});

test("an OAuth bearer stays a bearer", async (t) => {
  const { twice } = await rig(t);
  const options = { apiKey: null, authToken: "token-of-the-caller" };
  await twice.anthropic((client) => client.messages.create({ messages: [user("bearer")], ...ASK }), options);
  assert.equal(twice.received[0].header("authorization"), "Bearer token-of-the-caller");
  assert.equal(twice.received[0].header("x-api-key"), undefined);
});
