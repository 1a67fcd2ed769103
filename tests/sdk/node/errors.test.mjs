// Errors and retries: the provider's as they are, and the gate's own as the SDKs take them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { rig } from "./rig.mjs";
import { ALL, BOTH, GPT, broken, chat, message, user } from "./samples.mjs";
import { told } from "./twice.mjs";

/** The same call, made through both. */
const run = (twice, { name, call }, ...more) =>
  (name === "message" ? twice.anthropic : twice.openai)((client) => call(client, ...more));

test("400 with the provider's words", async (t) => {
  const { twice } = await rig(t);
  const error = await twice.openai((client) => client.chat.completions.create({ model: GPT, messages: [] }));
  assert.equal(error.constructor.name, "BadRequestError");
  assert.match(error.message, /empty array/);
  assert.deepEqual([error.code, error.param], ["empty_array", "messages"]);
  assert.equal(error.headers.get("x-sluicegate-error"), null);

  const thought = { type: "thinking", thinking: "hm", signature: "bm8=" };
  const turns = [user("hi"), { role: "assistant", content: [thought] }, user("go on")];
  const refused = await run(twice, message, { messages: turns });
  assert.equal(refused.constructor.name, "BadRequestError");
  assert.match(refused.message, /Invalid `signature`/);
});

for (const form of BOTH) {
  test(`${form.name}: 401 is the provider's own`, async (t) => {
    const { mock, twice } = await rig(t);
    await mock.limits({ require_key: "another" });
    const error = await run(twice, form);
    assert.equal(error.constructor.name, "AuthenticationError");
    assert.match(error.message, /Incorrect API key/);
  });

  for (const status of [403, 404, 409, 422, 429, 500, 503, 529]) {
    test(`${form.name}: ${status} is raised as it is`, async (t) => {
      const { mock, twice } = await rig(t);
      await mock.script(String(status));
      const error = await run(twice, form, {}, { maxRetries: 0 });
      assert.equal(error.status, status);
      assert.match(error.message, /the script says/);
      assert.equal((await mock.stats()).arrived, 1);
    });
  }

  test(`${form.name}: 429 is tried again after the hint`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.script("429(retry-after=1) 2x; ok");
    assert.ok((await form.call(form.connect(gate.url))).id);
    assert.deepEqual((await mock.stats()).by_status, { 429: 2, 200: 1 });
    const requests = await mock.requests();
    assert.deepEqual(requests.map((request) => request.header("x-stainless-retry-count")), ["0", "1", "2"]);
  });

  for (const script of ["503 1x; ok", "529 1x; ok", "reset 1x; ok"]) {
    test(`${form.name}: tried again after ${script}`, async (t) => {
      const { mock, gate } = await rig(t);
      await mock.script(script);
      assert.ok((await form.call(form.connect(gate.url))).id);
      assert.equal((await mock.stats()).arrived, 2);
    });
  }

  test(`${form.name}: a plain answer that is cut is an error with a status`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.script("cut");
    const error = await form.call(form.connect(gate.url, { maxRetries: 0 })).catch((error) => error);
    assert.equal(error.status, 502);
    assert.equal(error.headers.get("x-sluicegate-error"), "upstream_error");
  });

  test(`${form.name}: the provider's error event`, async (t) => {
    const { mock, twice } = await rig(t);
    await mock.script("error");
    const read = async (client) => broken(await form.call(client, { stream: true }));
    const { events, error } = await (form === message ? twice.anthropic : twice.openai)(read);
    assert.ok(events.length);
    assert.equal(error.constructor.name, "APIError");
    assert.match(JSON.stringify(told(error)), /the script says 500/);
  });
}

for (const form of ALL) {
  for (const script of ["cut", "stall 300ms; ok"]) {
    test(`${form.name}: a stream that breaks never just ends (${script})`, async (t) => {
      const { mock, gate } = await rig(t);
      await mock.script(script);
      const { events, error } = await broken(await form.call(form.connect(gate.url), { stream: true }));
      assert.ok(events.length, "what had come before the break is passed on");
      assert.equal(error?.constructor.name, "APIError");
      assert.match(JSON.stringify([error.message, error.error]), /provider/);
    });
  }
}

test("not found by the gate itself", async (t) => {
  const { gate, mock } = await rig(t);
  const error = await chat.call(chat.connect(`${gate.url}/nowhere`)).catch((error) => error);
  assert.equal(error.constructor.name, "NotFoundError");
  assert.equal(error.code, "not_found");
  assert.equal((await mock.stats()).arrived, 0);
});
