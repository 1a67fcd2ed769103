// Makes calls with the Node SDKs for a test that is written in Python: a line of JSON in for each call, and out when
// it is over.

import { createInterface } from "node:readline";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const messages = [{ role: "user", content: "hello" }];

const calls = {
  "openai-node": (options, stream) =>
    new OpenAI({ ...options, baseURL: `${options.baseURL}/v1` }).chat.completions.create({
      model: "gpt-5-mini",
      messages,
      stream,
    }),
  "anthropic-node": (options, stream) =>
    new Anthropic(options).messages.create({ model: "claude-haiku-4-5", max_tokens: 1024, messages, stream }),
};

async function outcome({ sdk, url, stream, retries, timeout }) {
  const options = { apiKey: "sk-of-the-caller", baseURL: url };
  if (retries !== null) options.maxRetries = retries;
  if (timeout !== null) options.timeout = timeout * 1000;
  try {
    const answer = await calls[sdk](options, stream);
    if (stream) for await (const _ of answer);
    return "ok";
  } catch (error) {
    if (error.status >= 400) return String(error.status);
    return error.constructor.name.includes("Timeout") ? "timeout" : "failed";
  }
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const call = JSON.parse(line);
  console.log(JSON.stringify({ id: call.id, outcome: await outcome(call) }));
});
