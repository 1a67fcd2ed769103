// Equal calls at once are one call of the provider, and its answer is kept for those to come.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { rig } from "./rig.mjs";
import { ALL as EVERY, chat, listed, message, response } from "./samples.mjs";
import { told } from "./twice.mjs";

const MANY = 200;
/** How long the provider takes for each direct call, in milliseconds. */
const LATENCY = 1_000;
/** What a crowd may take longer through the gate than directly, in milliseconds. Far above what is measured and told. */
const ROOM = 500;
/** How often that is measured before it counts as too long: the machine may have other things to do. */
const TRIES = 3;

/** All forms of a call; a response is one that the provider is told not to store: only such a one is shared. */
const ALL = EVERY.map((form) =>
  form === response
    ? { ...form, call: (client, more, options) => form.call(client, { store: false, ...more }, options) }
    : form,
);
const many = (form) => Array.from({ length: MANY }, (_, number) => form(number));

/** One caller: what it got, what it was told of the way, and how long that took. */
async function ask(form, client, stream = false, options = {}, prompt = "hello") {
  const began = performance.now();
  const { data, response } = await form.call(client, { stream, text: prompt }, options).withResponse();
  const said = told(stream ? await listed(data) : data);
  const { headers } = response;
  return { said, headers, fate: headers.get("x-sluicegate-cache"), took: performance.now() - began };
}

const connect = (form, url, options) => form.connect(url, { maxRetries: 0, ...options });

/** What the provider says to one caller, in each form. */
async function alone(form, mock, prompt) {
  const client = connect(form, mock.url);
  const said = async (stream) => (await ask(form, client, stream, {}, prompt)).said;
  return { plain: await said(false), stream: await said(true) };
}

/** All the words of an answer. */
function text(form, said, stream) {
  const deltas = (type) => said.filter((event) => event.type === type).map(({ delta }) => delta);
  switch (form.name) {
    case "chat":
      if (!stream) return said.choices[0].message.content;
      return said.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("");
    case "message":
      if (!stream) return said.content[0].text;
      return deltas("content_block_delta").map((delta) => delta.text).join("");
    default:
      return stream ? deltas("response.output_text.delta").join("") : said.output[0].content[0].text;
  }
}

/** How an answer ends, and the tokens it tells of. */
function end(form, said, stream) {
  switch (form.name) {
    case "chat":
      return stream ? said.at(-1).choices[0].finish_reason : [said.choices[0].finish_reason, said.usage];
    case "message": {
      // The provider tells the rest of its usage at the beginning of a stream, and here only what was counted at its end.
      const { usage } = stream ? said.at(-2) : said;
      const reason = stream ? said.at(-2).delta.stop_reason : said.stop_reason;
      return [stream && said.at(-1).type, reason, usage.input_tokens, usage.output_tokens];
    }
    default: {
      const { status, usage } = stream ? said.at(-1).response : said;
      return [status, usage];
    }
  }
}

/** A caller of either form has the same answer to the end, whatever form the provider gave it in. */
function isWhole(form, got, stream, direct) {
  const wanted = stream ? direct.stream : direct.plain;
  assert.ok(text(form, wanted, stream).length > 10);
  assert.equal(text(form, got.said, stream), text(form, wanted, stream));
  assert.deepEqual(end(form, got.said, stream), end(form, wanted, stream));
}

/** The same bits in every run, neither all of one form nor in turn. */
function mixed() {
  let state = 7;
  return many(() => (state = (state * 1103515245 + 12345) % 2 ** 31) > 2 ** 30);
}

const MIXES = {
  plain: many(() => false),
  streams: many(() => true),
  "plain ones join a stream": many((number) => number === 0 || number % 2 === 1),
  "any order": mixed(),
};

/** Asks once for each form, all at once; with `ready`, the others come when the first one's call has it resolved. */
async function crowd(form, url, streams, ready, prompt) {
  const client = connect(form, url);
  const asked = (stream) => ask(form, client, stream, {}, prompt);
  const first = asked(streams[0]);
  await ready?.();
  return Promise.all([first, ...streams.slice(1).map(asked)]);
}

/** How long the slowest of a crowd takes directly, beyond the provider's own time. */
async function crowdDirect(form, mock, streams) {
  await mock.reset();
  await mock.limits({ latency: `${LATENCY}ms`, chunk_interval: "0s" });
  const slowest = slowestOf(await crowd(form, mock.url, streams));
  assert.equal((await mock.stats()).arrived, MANY);
  await mock.reset();
  return slowest - LATENCY;
}

const slowestOf = (all) => Math.max(...all.map((got) => got.took));
const aloft = (mock) => mock.comesTo((stats) => stats.in_flight === 1);

for (const form of ALL) {
  for (const [mix, streams] of Object.entries(MIXES)) {
    if (form.name === "response" && mix !== "any order") continue;
    test(`${form.name}, ${mix}: a crowd is one call`, async (t) => {
      const { mock, gate } = await rig(t);
      for (let number = 1; ; number++) {
        const prompt = `crowd ${number}`;
        const said = await alone(form, mock, prompt);
        const direct = await crowdDirect(form, mock, streams);
        // Long enough for all callers to come meanwhile.
        const latency = Math.round(LATENCY + 3 * direct);
        await mock.limits({ latency: `${latency}ms` });
        const ready = mix === "plain ones join a stream" ? () => aloft(mock) : undefined;
        const gated = await crowd(form, gate.url, streams, ready, prompt);

        const { arrived } = await mock.stats();
        assert.ok(arrived >= 1 && arrived <= (mix === "any order" ? 2 : 1), `${arrived} calls`);
        const count = (fate) => gated.filter((got) => got.fate === fate).length;
        assert.deepEqual([count("miss"), count("joined")], [arrived, MANY - arrived]);
        gated.forEach((got, at) => isWhole(form, got, streams[at], said));
        if (mix === "plain") for (const got of gated) assert.deepEqual(got.said, said.plain);
        if (mix === "streams") for (const got of gated) assert.deepEqual(got.said, said.stream);
        assert.equal(new Set(gated.map((got) => got.headers.get("x-request-id"))).size, MANY);
        const beyond = slowestOf(gated) - latency;
        const seconds = (time) => `${(time / 1e3).toFixed(3)} s`;
        t.diagnostic(
          `sharing: ${form.name}, ${mix}: ${MANY} calls, beyond the provider's time: ` +
            `direct ${seconds(direct)}, gate ${seconds(beyond)}`,
        );
        if (beyond <= direct + ROOM) return;
        assert.ok(number < TRIES, `${TRIES} times more than ${ROOM} ms longer than directly`);
        await mock.limits({ latency: "0s" });
        await mock.reset();
      }
    });
  }

  for (const stream of [false, true]) {
    const shape = stream ? "stream" : "plain";

    test(`${form.name}, ${shape}: the first caller leaves halfway`, async (t) => {
      const { mock, gate } = await rig(t);
      const said = await alone(form, mock);
      // Long enough for the others to come before half of it is over. A plain answer is halfway before its head, a
      // stream within its events.
      const takes = Math.round(LATENCY + 6 * (await crowdDirect(form, mock, many(() => stream))));
      const interval = `${Math.round(takes / 8)}ms`;
      await mock.limits(stream ? { latency: "0s", chunks: 8, chunk_interval: interval } : { latency: `${takes}ms` });
      const leaves = new AbortController();
      const first = ask(form, connect(form, gate.url), stream, { signal: leaves.signal });
      // The SDKs end a stream that was left, and throw for a plain answer.
      const had = first.then((got) => (stream ? got.said.length : Infinity), () => 0);
      await aloft(mock);
      const client = connect(form, gate.url);
      const asking = Promise.all(many(() => ask(form, client, stream)).slice(1));
      await pause(takes / 2);
      assert.equal((await mock.stats()).in_flight, 1, "halfway");
      leaves.abort();
      const others = await asking;
      assert.ok((await had) < (stream ? said.stream.length : 1), "it left before the end");
      assert.equal(others.length, MANY - 1);
      for (const got of others) {
        assert.equal(got.fate, "joined");
        assert.deepEqual(got.said, said[shape]);
      }
      const { arrived, by_status, hang_ups } = await mock.stats();
      assert.deepEqual([arrived, by_status, hang_ups.count], [1, { 200: 1 }, 0]);
    });

    test(`${form.name}, ${shape}: a later call gets what is kept in either form`, async (t) => {
      const { mock, gate } = await rig(t);
      const said = await alone(form, mock);
      await mock.reset();
      const client = connect(form, gate.url);
      assert.equal((await ask(form, client, stream)).fate, "miss");
      for (const wanted of [stream, !stream]) {
        const got = await ask(form, client, wanted);
        assert.equal(got.fate, "hit");
        assert.match(got.headers.get("age"), /^[012]$/);
        assert.match(got.headers.get("cache-status"), /^sluicegate; hit; ttl=/);
        assert.match(got.headers.get("content-type"), wanted ? /^text\/event-stream/ : /^application\/json/);
        isWhole(form, got, wanted, said);
        if (wanted === stream) assert.deepEqual(got.said, said[shape]);
      }
      assert.equal((await mock.stats()).arrived, 1);
    });
  }

  test(`${form.name}: no-store shares nothing`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.limits({ latency: "500ms" });
    const client = connect(form, gate.url);
    const apart = { headers: { "Cache-Control": "no-store" } };
    const got = await Promise.all([{}, apart, apart, apart].map((options) => ask(form, client, false, options)));
    assert.deepEqual(got.map(({ fate }) => fate), ["miss", "bypass", "bypass", "bypass"]);
    for (const { said } of got) assert.deepEqual(said, got[0].said);
    assert.equal((await mock.stats()).arrived, 4);
    assert.equal((await ask(form, client, false, apart)).fate, "bypass");
    assert.equal((await mock.stats()).arrived, 5);
    assert.equal((await ask(form, client)).fate, "hit");
  });

  test(`${form.name}: a failure is told to all aboard and is not kept`, async (t) => {
    const { mock, gate } = await rig(t);
    await mock.limits({ latency: "500ms" });
    await mock.script("cut 1x; ok");
    const client = connect(form, gate.url);
    const errors = await Promise.all(Array.from({ length: 20 }, () => ask(form, client).then(assert.fail, (error) => error)));
    for (const error of errors) {
      assert.equal(error.status, 502);
      assert.equal(error.headers.get("x-sluicegate-error"), "upstream_error");
    }
    assert.equal((await mock.stats()).arrived, 1);
    assert.equal((await ask(form, client)).fate, "miss");
  });
}

test("what is never shared", async (t) => {
  const { mock, gate } = await rig(t);
  const search = [{ type: "web_search_20250305", name: "web_search" }];
  for (const [form, more] of [[response, {}], [chat, { n: 2 }], [message, { tools: search }]]) {
    const client = connect(form, gate.url);
    for (let time = 0; time < 2; time++) {
      const { response: answer } = await form.call(client, more).withResponse();
      assert.equal(answer.headers.get("x-sluicegate-cache"), "bypass");
    }
  }
  assert.equal((await mock.stats()).arrived, 6);
});
