// A provider's errors reach the SDK of the other vendor as its own, and it does what it does about its own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { broken, listed } from "./samples.mjs";
import { BOTH, chat, message, translator } from "./tongues.mjs";
import { told } from "./twice.mjs";

/** The SDK's class, and the status where it is another one. */
const STATUSES = [
  [chat, 400, "BadRequestError"],
  [chat, 404, "NotFoundError"],
  [chat, 429, "RateLimitError"],
  [chat, 500, "InternalServerError"],
  [chat, 503, "InternalServerError"],
  // OpenAI's clients know no 529.
  [chat, 529, "InternalServerError", 503],
  [message, 400, "BadRequestError"],
  [message, 404, "NotFoundError"],
  [message, 429, "RateLimitError"],
  [message, 500, "InternalServerError"],
  [message, 503, "ServiceUnavailableError"],
];

for (const [form, status, name, becomes = status] of STATUSES) {
  for (const stream of [false, true]) {
    test(`${form.name}: ${status} is raised as the SDK's own, ${stream ? "streamed" : "plain"}`, async (t) => {
      const { mock, gate } = await translator(t);
      await mock.script(String(status));
      const error = await form.call(form.connect(gate.url, { maxRetries: 0 }), { stream }).catch((error) => error);
      assert.deepEqual([error.constructor.name, error.status], [name, becomes]);
      assert.match(error.message, /the script says/);
      assert.equal(error.headers.get("x-sluicegate-error"), null);
      assert.equal((await mock.stats()).arrived, 1);
    });
  }
}

for (const form of BOTH) {
  for (const stream of [false, true]) {
    for (const [script, by_status] of [
      ["429(retry-after=1) 1x; ok", { 429: 1, 200: 1 }],
      ["503 1x; ok", { 503: 1, 200: 1 }],
      ["529 1x; ok", { 529: 1, 200: 1 }],
      ["reset 1x; ok", { reset: 1, 200: 1 }],
    ]) {
      test(`${form.name}: tried again after ${script}, ${stream ? "streamed" : "plain"}`, async (t) => {
        const { mock, gate } = await translator(t);
        await mock.script(script);
        const answer = await form.call(form.connect(gate.url), { stream });
        assert.ok(stream ? (await listed(answer)).length : answer.id);
        assert.deepEqual((await mock.stats()).by_status, by_status);
      });
    }
  }

  test(`${form.name}: the provider's error event`, async (t) => {
    const { mock, gate } = await translator(t);
    await mock.script("error");
    const { events, error } = await broken(await form.call(form.connect(gate.url), { stream: true }));
    assert.ok(events.length);
    assert.equal(error?.constructor.name, "APIError");
    assert.match(JSON.stringify(told(error)), /the script says 500/);
    assert.equal((await mock.stats()).arrived, 1, "what has begun is not tried again");
  });

  for (const script of ["cut", "stall 300ms; ok", "garbage"]) {
    test(`${form.name}: a stream that breaks never just ends (${script})`, async (t) => {
      const { mock, gate } = await translator(t);
      await mock.script(script);
      const { events, error } = await broken(await form.call(form.connect(gate.url), { stream: true }));
      assert.ok(events.length, "what had come before the break is passed on");
      assert.equal(error?.constructor.name, "APIError");
      assert.match(JSON.stringify([error.message, error.error]), /provider/);
    });
  }

  test(`${form.name}: a plain answer that is cut is an error with a status`, async (t) => {
    const { mock, gate } = await translator(t);
    await mock.script("cut");
    const error = await form.call(form.connect(gate.url, { maxRetries: 0 })).catch((error) => error);
    assert.deepEqual([error.constructor.name, error.status], ["InternalServerError", 502]);
    assert.equal(error.headers.get("x-sluicegate-error"), "upstream_error");
  });
}

test("a stream that breaks under a helper", async (t) => {
  const { mock, gate } = await translator(t);
  await mock.script("cut");
  const messages = [{ role: "user", content: "helper" }];
  const completion = chat.connect(gate.url).chat.completions.stream({ model: "claude-sonnet-4-6", messages });
  await assert.rejects(completion.finalChatCompletion(), /provider/);
  const answer = message.connect(gate.url).messages.stream({ model: "gpt-4.1", max_tokens: 400, messages });
  await assert.rejects(answer.finalMessage(), /provider/);
});
