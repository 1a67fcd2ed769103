// Runs the same code against the provider and through the gate, and compares all that both sides saw. What the
// caller sees must be equal; what the provider receives must be equal byte for byte, but for the splice that
// asks for usage on streams, and the headers that belong to one connection.

import assert from "node:assert/strict";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

export const KEY = "sk-of-the-caller";
/** Belong to a connection, or are the gate's to write. */
const OF_ONE_HOP = ["host", "connection", "accept-encoding", "content-length", "transfer-encoding"];
const ASKS_USAGE = ["/v1/chat/completions", "/v1/completions"];

export const openai = (url, options) => new OpenAI({ apiKey: KEY, baseURL: `${url}/v1`, ...options });
export const anthropic = (url, options) => new Anthropic({ apiKey: KEY, baseURL: url, ...options });

export class Twice {
  constructor(mock, gate) {
    this.mock = mock;
    this.gate = gate;
    /** What arrived at the provider through the gate. */
    this.received = [];
  }

  openai = (run, options) => this.#both(openai, run, options);
  anthropic = (run, options) => this.#both(anthropic, run, options);

  async #both(connect, run, options) {
    const seen = [];
    const sent = [];
    for (const url of [this.mock.url, this.gate.url]) {
      await this.mock.reset();
      seen.push(await outcome(run, connect(url, options)));
      sent.push(await this.mock.requests());
    }
    this.received = sent[1];
    assert.deepEqual(told(seen[1]), told(seen[0]));
    assert.equal(sent[1].length, sent[0].length);
    sent[1].forEach((gated, at) => sameRequest(gated, sent[0][at]));
    return seen[1];
  }
}

/** What `run` gives, or the error that it ends in. */
async function outcome(run, client) {
  try {
    return await run(client);
  } catch (error) {
    return error;
  }
}

/** A value as plain data, without what differs from call to call, and without usage where it is not told. */
export function told(value) {
  if (value instanceof Error) return [value.constructor.name, value.status, told(value.error)];
  if (Buffer.isBuffer(value)) return value.toString("base64");
  if (Array.isArray(value)) return value.map(told);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([name, field]) => {
    const untold = field === undefined || (name === "usage" && field === null);
    return !untold && name !== "request_id" && name !== "_request_id" && typeof field !== "function";
  });
  return Object.fromEntries(fields.map(([name, field]) => [name, told(field)]));
}

function sameRequest(gated, direct) {
  const line = ({ method, path, version }) => ({ method, path, version });
  assert.deepEqual(line(gated), line(direct));
  assert.deepEqual(endToEnd(gated), endToEnd(direct));
  for (const request of [gated, direct]) {
    const length = request.header("content-length");
    assert.ok(length === undefined || Number(length) === request.body.length);
  }
  sameBody(gated, direct);
}

function endToEnd(request) {
  const boundary = boundaryOf(request);
  const headers = request.headers.filter(([name]) => !OF_ONE_HOP.includes(name));
  // The boundary of a form is drawn anew for each request.
  return headers.map(([name, value]) => `${name}: ${boundary ? value.replace(boundary, "BOUNDARY") : value}`).sort();
}

const boundaryOf = (request) => request.header("content-type")?.match(/boundary=([^;]+)/)?.[1];

function sameBody(gated, direct) {
  const boundary = boundaryOf(direct);
  if (boundary) {
    const text = (request) => request.body.toString("latin1").replaceAll(boundaryOf(request), "BOUNDARY");
    assert.equal(text(gated), text(direct));
  } else if (asksForUsage(direct)) {
    onlySpliced(gated.body, direct.body);
  } else {
    assert.equal(gated.body.toString("latin1"), direct.body.toString("latin1"));
  }
}

/** Whether the gate has to ask for usage in place of this caller. */
function asksForUsage(request) {
  if (!ASKS_USAGE.includes(request.path)) return false;
  const body = request.json();
  return body.stream === true && body.stream_options?.include_usage !== true;
}

/** `gated` is `direct` with usage asked for, and every other byte is as it was. */
function onlySpliced(gated, direct) {
  const wanted = JSON.parse(direct);
  const replaced = wanted.stream_options && "include_usage" in wanted.stream_options ? "false".length : 0;
  wanted.stream_options = { ...wanted.stream_options, include_usage: true };
  assert.deepEqual(JSON.parse(gated), wanted);
  const start = sharedPrefix(gated, direct);
  const end = sharedPrefix(Buffer.from(gated).reverse(), Buffer.from(direct).reverse());
  assert.ok(start + end >= direct.length - replaced, `more than a splice:\n${gated}\n${direct}`);
}

function sharedPrefix(one, other) {
  const at = one.findIndex((byte, at) => byte !== other[at]);
  return at < 0 ? one.length : at;
}
