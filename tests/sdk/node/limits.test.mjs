// Deadlines, overload, callers that leave, many calls at once, and what an answer's headers say.

import assert from "node:assert/strict";
import { test } from "node:test";

import { rig } from "./rig.mjs";
import { ALL, BOTH, listed, message } from "./samples.mjs";
import { told } from "./twice.mjs";

for (const form of ALL) {
  for (const stream of [false, true]) {
    test(`${form.name}: the caller's deadline is not tried again (stream: ${stream})`, async (t) => {
      const { mock, gate } = await rig(t);
      await mock.script("hang!");
      const headers = { "x-sluicegate-timeout": "300ms" };
      const error = await form.call(form.connect(gate.url), { stream }, { headers }).catch((error) => error);
      assert.equal(error.status, 504);
      assert.equal(error.headers.get("x-sluicegate-error"), "deadline_exceeded");
      assert.equal(error.headers.get("x-should-retry"), "false");
      const stats = await mock.comesTo(({ in_flight }) => in_flight === 0, 1000);
      assert.equal(stats.arrived, 1);
    });

    test(`${form.name}: every answer names its way (stream: ${stream})`, async (t) => {
      const { mock, gate } = await rig(t);
      const { data, response } = await form.call(form.connect(gate.url), { stream }).withResponse();
      if (stream) await listed(data);
      const header = (name) => response.headers.get(name);
      assert.equal(header("x-sluicegate-provider"), form === message ? "anthropic" : "openai");
      assert.equal(header("x-sluicegate-attempts"), "1");
      // A response that nobody said not to store is stored by its provider, and flies for its caller alone.
      assert.equal(header("x-sluicegate-cache"), form.name === "response" ? "bypass" : "miss");
      assert.match(header("server-timing"), /gate;dur=.*queue;dur=.*upstream;dur=/);
      assert.ok(header("x-request-id"));
      assert.match(header(form === message ? "request-id" : "x-upstream-request-id"), /^req_mock_/);
      const [received] = await mock.requests();
      assert.ok(!received.headers.some(([name]) => name.startsWith("x-sluicegate-")));
    });
  }

  test(`${form.name}: a caller that leaves a stream frees its upstream call`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.limits({ chunks: 100, chunk_interval: "50ms" });
    const stream = await form.call(form.connect(gate.url), { stream: true });
    for await (const _ of stream) break;
    await mock.comesTo(({ hang_ups, in_flight }) => hang_ups.count === 1 && in_flight === 0, 1000);
  });
}

for (const form of BOTH) {
  test(`${form.name}: an aborted call frees its upstream call`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.script("hang!");
    const controller = new AbortController();
    const asked = form.call(form.connect(gate.url), {}, { signal: controller.signal });
    const ended = assert.rejects(asked, (error) => error.constructor.name === "APIUserAbortError");
    await mock.comesTo(({ in_flight }) => in_flight === 1);
    controller.abort();
    await ended;
    await mock.comesTo(({ hang_ups }) => hang_ups.count === 1, 1000);
  });

  // The SDK tells its timeout, so the gate may be the first to give up: either is a timeout to the caller.
  test(`${form.name}: the SDK's own timeout`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.script("hang!");
    const client = form.connect(gate.url, { timeout: 400, maxRetries: 0 });
    const error = await form.call(client).catch((error) => error);
    if (error.constructor.name !== "APIConnectionTimeoutError") {
      assert.equal(error.status, 504);
      assert.equal(error.headers.get("x-sluicegate-error"), "deadline_exceeded");
    }
    const stats = await mock.comesTo(({ hang_ups }) => hang_ups.count === 1, 1000);
    assert.equal(stats.arrived, 1);
  });

  test(`${form.name}: a full queue is told with a hint and tried again`, async (t) => {
    const { mock, gate } = await rig(t, { flags: ["--concurrency", "1"], config: "[queue]\nmax = 0\n" });
    await mock.limits({ latency: "600ms" });
    const client = form.connect(gate.url);
    const first = form.call(client, { text: "the first" });
    // Only asking sends it.
    const sent = first.then((answer) => answer);
    await mock.comesTo(({ in_flight }) => in_flight === 1);
    const hasty = form.connect(gate.url, { maxRetries: 0 });
    const error = await form.call(hasty, { text: "turned away" }).catch((error) => error);
    assert.equal(error.constructor.name, "RateLimitError");
    assert.equal(error.headers.get("x-sluicegate-error"), "overloaded");
    assert.equal(error.headers.get("x-sluicegate-reason"), "queue_full");
    assert.ok(Number(error.headers.get("retry-after")) >= 1);
    assert.ok((await form.call(client, { text: "the second" })).id);
    await sent;
    const tries = (await mock.requests()).map((request) => Number(request.header("x-stainless-retry-count")));
    // The provider never saw what was refused: two calls, and the second came as a retry.
    assert.equal(tries.length, 2);
    assert.ok(tries[0] === 0 && tries[1] >= 1);
  });

  for (const stream of [false, true]) {
    test(`${form.name}: many at once are all in flight together (stream: ${stream})`, async (t) => {
      const { mock, gate } = await rig(t);
      const numbers = Array.from({ length: 64 }, (_, at) => at);
      const ask = async (client, number) => {
        const answer = await form.call(client, { text: `number ${number}`, stream });
        return told(stream ? await listed(answer) : answer);
      };
      const direct = [];
      for (const number of numbers) direct.push(await ask(form.connect(mock.url), number));
      await mock.reset();
      await mock.limits({ latency: "1s" });
      const client = form.connect(gate.url);
      const gated = await Promise.all(numbers.map((number) => ask(client, number)));
      // Each caller has the answer to its own prompt.
      assert.deepEqual(gated, direct);
      const { arrived, most_in_flight } = await mock.stats();
      assert.deepEqual([arrived, most_in_flight], [64, 64]);
    });
  }
}
