// OpenAI's SDK asks Claude and Anthropic's SDK asks GPT: answers, streams, forms, attachments, hints, crowds. The
// provider's words follow from the model and the prompt alone: where a translated call gets what the vendor's own
// SDK gets directly, the prompt arrived as it was meant.

import assert from "node:assert/strict";
import { test } from "node:test";

import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { CLAUDE, GPT, PDF, PNG, listed, user } from "./samples.mjs";
import { BOTH, KEYS, chat, dropped, message, textOf, translator } from "./tongues.mjs";
import { anthropic, openai, told } from "./twice.mjs";

const Weather = z.object({ city: z.string(), degrees: z.int(), sunny: z.boolean() });
const system = { role: "system", content: "Be brief." };
/** Nothing is kept of such a call, nor does it get what is. */
const APART = { headers: { "Cache-Control": "no-store" } };
const MANY = 200;

const claudeDirectly = (mock, ask) =>
  anthropic(mock.url, { apiKey: KEYS.ANTHROPIC_API_KEY }).messages.create({ model: CLAUDE, max_tokens: 4096, ...ask });
const gptDirectly = (mock, ask) =>
  openai(mock.url, { apiKey: KEYS.OPENAI_API_KEY }).chat.completions.create({ model: GPT, ...ask });

test("Claude says the same to OpenAI's SDK", async (t) => {
  const { mock, gate } = await translator(t);
  const direct = await claudeDirectly(mock, { system: "Be brief.", messages: [user("plain")] });
  const client = openai(gate.url);
  const answer = await chat.call(client, { messages: [system, user("plain")] });
  assert.equal(answer.choices[0].message.content, direct.content[0].text);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.prompt_tokens, direct.usage.input_tokens);
  assert.equal(answer.usage.completion_tokens, direct.usage.output_tokens);

  const deltas = [];
  const stream = client.chat.completions.stream({
    model: CLAUDE,
    messages: [system, user("plain")],
    stream_options: { include_usage: true },
  });
  stream.on("content", (delta) => deltas.push(delta));
  const helped = await stream.finalChatCompletion();
  assert.equal(deltas.join(""), direct.content[0].text);
  assert.equal(helped.choices[0].message.content, direct.content[0].text);
  assert.equal(helped.usage.completion_tokens, direct.usage.output_tokens);
});

test("GPT says the same to Anthropic's SDK", async (t) => {
  const { mock, gate } = await translator(t);
  const direct = await gptDirectly(mock, { messages: [system, user("plain")] });
  const client = anthropic(gate.url);
  const ask = { system: "Be brief.", messages: [user("plain")] };
  const answer = await message.call(client, ask);
  assert.deepEqual(answer.content.map((block) => [block.type, block.text]), [["text", direct.choices[0].message.content]]);
  assert.equal(answer.stop_reason, "end_turn");

  const texts = [];
  const stream = client.messages.stream({ model: GPT, max_tokens: 400, ...ask });
  stream.on("text", (text) => texts.push(text));
  const helped = await stream.finalMessage();
  assert.equal(texts.join(""), answer.content[0].text);
  assert.equal(helped.content[0].text, answer.content[0].text);
  for (const { usage } of [answer, helped]) {
    assert.equal(usage.input_tokens, direct.usage.prompt_tokens);
    assert.equal(usage.output_tokens, direct.usage.completion_tokens);
  }
});

for (const form of BOTH) {
  test(`${form.name}: a stream is the plain answer in pieces`, async (t) => {
    const { mock, gate } = await translator(t);
    const client = form.connect(gate.url);
    const plain = await form.call(client, {}, APART);
    const events = await listed(await form.call(client, { stream: true }, APART));
    assert.equal((await mock.stats()).arrived, 2);
    assert.equal(textOf(form, events), textOf(form, plain));
    if (form === chat) {
      assert.equal(events[0].choices[0].delta.role, "assistant");
      assert.equal(events.at(-1).choices[0].finish_reason, "stop");
      assert.ok(events.every((chunk) => !chunk.usage && chunk.choices.length));
    } else {
      assert.equal(events[0].type, "message_start");
      assert.equal(events.at(-2).delta.stop_reason, "end_turn");
      assert.equal(events.at(-1).type, "message_stop");
    }
  });

  test(`${form.name}: a limit and a stop sequence`, async (t) => {
    const { gate } = await translator(t);
    const client = form.connect(gate.url);
    const whole = textOf(form, await form.call(client));
    const stop = [whole.split(" ")[5]];
    const stopped = await form.call(client, form === chat ? { stop } : { stop_sequences: stop });
    assert.equal(textOf(form, stopped), whole.slice(0, whole.indexOf(stop[0])));
    const limited = await form.call(client, form === chat ? { max_completion_tokens: 5 } : { max_tokens: 5 });
    assert.equal(form === chat ? limited.choices[0].finish_reason : limited.stop_reason, form === chat ? "length" : "max_tokens");
    assert.ok(whole.startsWith(textOf(form, limited)));
  });

  test(`${form.name}: ${MANY} equal calls at once are one`, async (t) => {
    const { mock, gate } = await translator(t);
    for (const stream of [false, true]) {
      await mock.reset();
      await mock.limits({ latency: "2s" });
      const client = form.connect(gate.url, { maxRetries: 0 });
      const ask = async () => {
        const { data, response } = await form.call(client, { stream, text: `crowd ${stream}` }).withResponse();
        return { said: told(stream ? await listed(data) : data), fate: response.headers.get("x-sluicegate-cache") };
      };
      const first = ask();
      await mock.comesTo((stats) => stats.in_flight === 1);
      const got = await Promise.all([first, ...Array.from({ length: MANY - 1 }, ask)]);
      assert.equal((await mock.stats()).arrived, 1);
      for (const { said } of got) assert.deepEqual(said, got[0].said);
      // Some come when the answer is there already, and are given it all the same.
      const [own, ...others] = got.map(({ fate }) => fate);
      assert.equal(own, "miss");
      assert.ok(others.includes("joined") && others.every((fate) => fate === "joined" || fate === "hit"));
    }
  });
}

test("structured output of Claude", async (t) => {
  const { gate } = await translator(t);
  const { completions } = openai(gate.url).chat;
  const response_format = zodResponseFormat(Weather, "weather");
  const plain = await completions.parse({ model: CLAUDE, messages: [user("parse")], response_format });
  const ask = { model: CLAUDE, messages: [user("parse a stream")], response_format };
  const streamed = await completions.stream(ask).finalChatCompletion();
  for (const { choices } of [plain, streamed]) Weather.parse(choices[0].message.parsed);
});

test("structured output of GPT", async (t) => {
  const { gate } = await translator(t);
  const { messages } = anthropic(gate.url);
  const ask = { model: GPT, max_tokens: 400, output_config: { format: zodOutputFormat(Weather) } };
  const plain = await messages.parse({ ...ask, messages: [user("parse")] });
  const streamed = await messages.stream({ ...ask, messages: [user("parse a stream")] }).finalMessage();
  for (const answer of [plain, streamed]) Weather.parse(answer.parsed_output);
});

test("images and documents", async (t) => {
  const { mock, gate } = await translator(t);
  const ofOpenAi = [
    { type: "text", text: "what is this?" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } },
  ];
  const ofAnthropic = [
    { type: "text", text: "what is this?" },
    { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
    { type: "document", source: { type: "base64", media_type: "application/pdf", data: PDF } },
  ];
  const claude = await chat.call(openai(gate.url), { messages: [user(ofOpenAi)] });
  const gpt = await message.call(anthropic(gate.url), { messages: [user(ofAnthropic)] });
  for (const text of [textOf(chat, claude), textOf(message, gpt)]) {
    assert.match(text, /^I see 1 images and 1 documents\./);
  }
  const [toClaude, toGpt] = (await mock.requests()).map((request) => request.json().messages[0].content);
  assert.deepEqual(toClaude.slice(1).map((part) => part.source), ofAnthropic.slice(1).map((part) => part.source));
  assert.equal(toGpt[1].image_url.url, ofOpenAi[1].image_url.url);
  assert.equal(toGpt[2].file.file_data, ofOpenAi[2].file.file_data);
});

test("what can not be asked is a bad request that names it", async (t) => {
  const { mock, gate } = await translator(t);
  const several = await chat.call(openai(gate.url), { n: 2 }).catch((error) => error);
  assert.equal(several.constructor.name, "BadRequestError");
  assert.deepEqual([several.param, several.code], ["n", "invalid_request"]);
  const tools = [{ type: "web_search_20250305", name: "web_search" }];
  const searching = await message.call(anthropic(gate.url), { tools }).catch((error) => error);
  assert.equal(searching.constructor.name, "BadRequestError");
  assert.match(searching.error.error.message, /tools\[0\]/);
  assert.equal((await mock.stats()).arrived, 0);
});

test("hints that the other does not take are left out and named", async (t) => {
  const { mock, gate } = await translator(t);
  const claude = await chat.call(openai(gate.url), { model: "claude-opus-4-7", temperature: 0.3, seed: 7 }).withResponse();
  assert.deepEqual(dropped(claude.response).sort(), ["seed", "temperature"]);
  const gpt = await message.call(anthropic(gate.url), { top_k: 5 }).withResponse();
  assert.ok(dropped(gpt.response).includes("top_k"));
  assert.ok(claude.data.choices[0].message.content && gpt.data.content[0].text);
  const [toClaude, toGpt] = (await mock.requests()).map((request) => request.json());
  for (const hint of ["temperature", "seed"]) assert.ok(!(hint in toClaude));
  assert.ok(!("top_k" in toGpt));
});
