// Responses, embeddings, models, files and speech by OpenAI's SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { toFile } from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { rig } from "./rig.mjs";
import { GPT, PDF, PNG, listed, response, responseTools, user } from "./samples.mjs";

const EMBEDDER = "text-embedding-3-small";

test("responses: plain, stream, helper", async (t) => {
  const { twice } = await rig(t);
  const { events, helped } = await twice.openai(async (client) => ({
    plain: await response.call(client),
    events: await listed(await response.call(client, { stream: true })),
    helped: await client.responses.stream({ model: GPT, input: "helper" }).finalResponse(),
  }));
  assert.equal(events.at(-1).type, "response.completed");
  assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
  assert.ok(helped.output_text);
});

test("responses: input items", async (t) => {
  const { twice } = await rig(t);
  const content = [
    { type: "input_text", text: "look" },
    { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" },
    { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
  ];
  const answer = await twice.openai((client) => client.responses.create({ model: GPT, input: [user(content)] }));
  assert.match(answer.output_text, /^I see 1 images and 1 documents\./);
});

for (const streams of [false, true]) {
  test(`responses: tools and their results, ${streams ? "streamed" : "plain"}`, async (t) => {
    const { twice } = await rig(t);
    const ask = (client, input) => {
      const request = { model: GPT, input, tools: responseTools };
      return streams ? client.responses.stream(request).finalResponse() : client.responses.create(request);
    };
    const { first, second } = await twice.openai(async (client) => {
      const input = [user("please use two tools")];
      const first = await ask(client, input);
      input.push(...first.output.map(({ parsed_arguments: _, ...call }) => call));
      for (const { call_id } of first.output) input.push({ type: "function_call_output", call_id, output: "18" });
      return { first, second: await ask(client, input) };
    });
    assert.deepEqual(first.output.map((call) => call.name), ["weather", "news"]);
    assert.ok(second.output_text);
  });
}

test("responses: structured output", async (t) => {
  const { twice } = await rig(t);
  const Weather = z.object({ city: z.string(), degrees: z.number() });
  const text = { format: zodTextFormat(Weather, "weather") };
  const answer = await twice.openai((client) => client.responses.parse({ model: GPT, input: "parse", text }));
  Weather.parse(answer.output_parsed);
});

test("responses: encrypted reasoning goes back unaltered", async (t) => {
  const { twice } = await rig(t);
  const asks = {
    model: "gpt-5-mini",
    store: false,
    reasoning: { effort: "low", summary: "auto" },
    include: ["reasoning.encrypted_content"],
  };
  const { first, second } = await twice.openai(async (client) => {
    const first = await client.responses.create({ input: "think", ...asks });
    const input = [user("think"), ...first.output, user("go on")];
    return { first, second: await client.responses.create({ input, ...asks }) };
  });
  assert.ok(first.output[0].encrypted_content);
  assert.equal(second.status, "completed");
});

test("responses: sub-paths reach the provider", async (t) => {
  const { twice } = await rig(t);
  const error = await twice.openai((client) => listed(client.responses.inputItems.list("resp_1", { limit: 3 })));
  assert.equal(error.constructor.name, "NotFoundError");
  assert.match(error.message, /Unknown request URL/);
  assert.equal(twice.received[0].path, "/v1/responses/resp_1/input_items?limit=3");
});

test("embeddings come in base64 and as numbers, and agree", async (t) => {
  const { twice } = await rig(t);
  const ask = { model: EMBEDDER, input: ["first", "second ünïcode"], dimensions: 64 };
  const { packed, plain } = await twice.openai(async (client) => ({
    packed: (await client.embeddings.create(ask)).data,
    plain: (await client.embeddings.create({ ...ask, encoding_format: "float" })).data,
  }));
  assert.equal(twice.received[0].json().encoding_format, "base64");
  assert.deepEqual(packed.map((item) => item.embedding.length), [64, 64]);
  packed[1].embedding.forEach((number, at) => assert.ok(Math.abs(number - plain[1].embedding[at]) < 1e-6));
});

test("models", async (t) => {
  const { twice } = await rig(t, { only: "openai" });
  const { models, one } = await twice.openai(async (client) => ({
    models: await listed(client.models.list()),
    one: await client.models.retrieve(GPT),
  }));
  assert.ok(models.some((model) => model.id === GPT) && one.id === GPT);
  const error = await twice.openai((client) => client.models.retrieve("no-such-model"));
  assert.equal(error.code, "model_not_found");
});

test("files go up and come back", async (t) => {
  const { twice } = await rig(t);
  const data = Buffer.from(Array.from({ length: 80_000 }, (_, at) => at % 251));
  const { file, content } = await twice.openai(async (client) => {
    const file = await client.files.create({ file: await toFile(data, "a ü.bin"), purpose: "user_data" });
    const answer = await client.files.content(file.id);
    return { file, content: Buffer.from(await answer.arrayBuffer()) };
  });
  assert.equal(file.bytes, data.length);
  assert.ok(content.equals(data));
});

test("speech", async (t) => {
  const { twice } = await rig(t);
  const ask = { model: "gpt-4o-mini-tts", voice: "alloy", input: "hello" };
  const { kind, sound } = await twice.openai(async (client) => {
    const answer = await client.audio.speech.create(ask);
    return { kind: answer.headers.get("content-type"), sound: Buffer.from(await answer.arrayBuffer()) };
  });
  assert.equal(kind, "audio/mpeg");
  assert.ok(sound.length > 1000);
});
