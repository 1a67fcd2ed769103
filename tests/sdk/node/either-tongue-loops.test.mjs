// Agents: five turns with two calls of tools each, pictures in their results, and thoughts that go back. The strict
// provider takes calls and results only where they belong together, and thoughts only as they were.

import assert from "node:assert/strict";
import { test } from "node:test";

import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { CLAUDE, GPT, PNG, chatTools, claudeTools, user } from "./samples.mjs";
import { translator } from "./tongues.mjs";
import { anthropic, openai } from "./twice.mjs";

const TURNS = 5;
const NAMES = ["weather", "news"];
const GO_ON = "use two tools";
const url = `data:image/png;base64,${PNG}`;
/** They think if asked to, up to a number of tokens; as they see fit; always, and do not show it unless asked. */
const THINKING = ["claude-sonnet-4-5", "claude-sonnet-4-6", "claude-opus-5-5"];

/** What tools say, a picture with the first of them. */
const chatResults = (calls, turn) =>
  calls.map(({ id, function: { name } }, number) => {
    const text = `${name} ${turn}`;
    const content = number === 0 ? [{ type: "text", text }, { type: "image_url", image_url: { url } }] : text;
    return { role: "tool", tool_call_id: id, content };
  });

/** Goes on with what the SDK gives, as it is; returns the last message. */
async function chatLoop(ask) {
  const messages = [{ role: "system", content: "You plan trips." }, user(GO_ON)];
  for (let turn = 0; turn < TURNS; turn++) {
    const message = await ask(messages);
    assert.deepEqual(message.tool_calls.map((call) => call.function.name), NAMES);
    assert.ok(message.tool_calls.every((call) => typeof JSON.parse(call.function.arguments).city === "string"));
    messages.push(message, ...chatResults(message.tool_calls, turn));
    // The last results stand alone: the model says what it makes of them.
    if (turn < TURNS - 1) messages.push(user(GO_ON));
  }
  return ask(messages);
}

/** Every request begins as the one before it, and has its pictures and thoughts where they were. */
async function claudeGotItAll(mock) {
  const sent = (await mock.requests()).map((request) => request.json());
  assert.equal(sent.length, TURNS + 1);
  sent.slice(1).forEach((after, at) => {
    assert.deepEqual(after.messages.slice(0, sent[at].messages.length), sent[at].messages);
  });
  const { messages } = sent.at(-1);
  for (let turn = 0; turn < TURNS; turn++) {
    const said = messages[1 + 2 * turn].content;
    const answered = messages[2 + 2 * turn].content;
    assert.deepEqual(said.map((block) => block.type), ["thinking", "tool_use", "tool_use"]);
    assert.deepEqual(answered.slice(0, 2).map((block) => block.tool_use_id), said.slice(1).map((block) => block.id));
    assert.equal(answered[0].content[1].source.data, PNG);
  }
}

/**
 * A message out of the chunks of a stream. The SDK's own helper keeps the last piece of each field that it does not
 * know: of a text cut in pieces one piece, and of several thoughts one.
 */
async function assembled(stream) {
  const message = { role: "assistant", content: "", reasoning_content: "", reasoning_details: [], tool_calls: [] };
  for await (const { choices } of stream) {
    const { content, reasoning_content, reasoning_details, tool_calls } = choices[0].delta;
    message.content += content ?? "";
    message.reasoning_content += reasoning_content ?? "";
    message.reasoning_details.push(...(reasoning_details ?? []));
    for (const { index, id, type, function: fn } of tool_calls ?? []) {
      message.tool_calls[index] ??= { id, type, function: { name: fn.name, arguments: "" } };
      message.tool_calls[index].function.arguments += fn.arguments ?? "";
    }
  }
  if (!message.tool_calls.length) delete message.tool_calls;
  return message;
}

const FORMS = {
  plain: async ({ completions }, request) => (await completions.create(request)).choices[0].message,
  // What Claude says thinks once an answer here, and the helper keeps that one thought whole.
  "streamed by the SDK's helper": async ({ completions }, request) =>
    (await completions.stream(request).finalChatCompletion()).choices[0].message,
  "streamed and assembled by hand": async ({ completions }, request) =>
    assembled(await completions.create({ ...request, stream: true })),
};

for (const [form, ask] of Object.entries(FORMS)) {
  for (const model of THINKING) {
    test(`OpenAI's messages go back to ${model} as they came, ${form}`, async (t) => {
      const { mock, gate } = await translator(t);
      const { chat } = openai(gate.url);
      const thinks = { reasoning_effort: "medium", max_completion_tokens: 8000 };
      const last = await chatLoop((messages) => ask(chat, { model, messages, tools: chatTools, ...thinks }));
      assert.match(last.content, new RegExp(`^I see ${TURNS} images`));
      assert.ok(last.reasoning_details[0].signature);
      if (form !== "streamed by the SDK's helper") assert.match(last.reasoning_content, /^First, /);
      await claudeGotItAll(mock);
    });
  }
}

const claudeResults = (calls, turn) =>
  calls.map(({ id, name }, number) => {
    const text = `${name} ${turn}`;
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
    return { type: "tool_result", tool_use_id: id, content: number === 0 ? [{ type: "text", text }, image] : text };
  });

async function claudeLoop(ask) {
  const messages = [user(GO_ON)];
  for (let turn = 0; turn < TURNS; turn++) {
    const { content, stop_reason } = await ask(messages);
    const calls = content.filter((block) => block.type === "tool_use");
    assert.deepEqual([stop_reason, ...calls.map((call) => call.name)], ["tool_use", ...NAMES]);
    assert.ok(calls.every((call) => typeof call.input.city === "string"));
    const more = turn < TURNS - 1 ? [{ type: "text", text: GO_ON }] : [];
    messages.push({ role: "assistant", content }, user([...claudeResults(calls, turn), ...more]));
  }
  return ask(messages);
}

const ask = ({ messages }, request, streams) =>
  streams ? messages.stream(request).finalMessage() : messages.create(request);

for (const streams of [false, true]) {
  for (const model of [GPT, "gpt-5-mini"]) {
    test(`Anthropic's messages go back to ${model} as they came, ${streams ? "streamed" : "plain"}`, async (t) => {
      const { mock, gate } = await translator(t);
      const client = anthropic(gate.url);
      const request = { model, max_tokens: 8000, system: "You plan trips.", tools: claudeTools };
      const last = await claudeLoop((messages) => ask(client, { ...request, messages }, streams));
      assert.equal(last.stop_reason, "end_turn");
      assert.match(last.content[0].text, new RegExp(`^I see ${TURNS} images`));

      const sent = (await mock.requests()).map((request) => request.json().messages);
      sent.slice(1).forEach((after, at) => assert.deepEqual(after.slice(0, sent[at].length), sent[at]));
      const turn = ["assistant", "tool", "tool", "user"];
      const roles = sent.at(-1).map((message) => message.role);
      // A tool's message has no room for a picture: the user shows it right behind.
      assert.deepEqual(roles.slice(1), ["user", ...Array(TURNS).fill(turn).flat()]);
      const shown = sent.at(-1).at(-1).content.filter((part) => part.type === "image_url");
      assert.deepEqual(shown.map((part) => part.image_url.url), [url]);
    });
  }

  test(`a conversation changes between the vendors and back, ${streams ? "streamed" : "plain"}`, async (t) => {
    const { gate } = await translator(t);
    const client = anthropic(gate.url);
    const claude = { model: CLAUDE, max_tokens: 4096, thinking: { type: "adaptive" }, tools: claudeTools };
    const gpt = { model: GPT, max_tokens: 4096, tools: claudeTools };
    const models = [claude, gpt, claude, gpt, claude, claude];
    const last = await claudeLoop((messages) => ask(client, { ...models.shift(), messages }, streams));
    assert.deepEqual(last.content.map((block) => block.type), ["thinking", "text"]);
  });
}

for (const stream of [false, true]) {
  const form = stream ? "streamed" : "plain";

  for (const model of THINKING) {
    test(`OpenAI's runner of tools on ${model}, ${form}`, async (t) => {
      const { mock, gate } = await translator(t);
      const asked = [];
      const weather = {
        name: "weather",
        parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        parse: JSON.parse,
        function: ({ city }) => (asked.push(city), `18 degrees in ${city}`),
      };
      const runner = openai(gate.url).chat.completions.runTools({
        model,
        stream,
        reasoning_effort: "medium",
        max_completion_tokens: 8000,
        messages: [user("use tool")],
        tools: [{ type: "function", function: weather }],
      });
      assert.ok((await runner.finalContent()).length > 10);
      assert.equal(asked.length, 1);
      const { messages } = (await mock.requests())[1].json();
      // The runner sends back what it knows of a message, and so loses the thoughts. They may be missing.
      const [call] = messages[1].content;
      assert.deepEqual([call.type, call.input], ["tool_use", { city: asked[0] }]);
      assert.match(JSON.stringify(messages[2]), new RegExp(`18 degrees in ${asked[0]}`));
    });
  }

  test(`Anthropic's runner of tools on GPT, ${form}`, async (t) => {
    const { mock, gate } = await translator(t);
    const asked = [];
    const weather = betaTool({
      name: "weather",
      description: "The weather of a city.",
      inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      run: ({ city }) => (asked.push(city), `18 degrees in ${city}`),
    });
    // It would have the provider keep the conversation, and sends it whole where it is told that this can't be.
    const runner = anthropic(gate.url).beta.messages.toolRunner({
      model: GPT,
      max_tokens: 400,
      stream,
      messages: [user("use tool")],
      tools: [weather],
    });
    const last = await runner.runUntilDone();
    assert.equal(last.stop_reason, "end_turn");
    assert.equal(asked.length, 1);
    const [, called, answered] = (await mock.requests()).at(-1).json().messages;
    assert.deepEqual(JSON.parse(called.tool_calls[0].function.arguments), { city: asked[0] });
    assert.deepEqual([answered.role, answered.content], ["tool", `18 degrees in ${asked[0]}`]);
  });
}
