// A scripted provider and a gate in front of it, each a real process on a free loopback port, and both with a
// clean environment, so that nobody's keys and settings get into a test.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { Twice } from "./twice.mjs";

const BINARY = process.env.SLUICEGATE;
/** For a process to come up, in milliseconds. */
const PATIENCE = 10_000;

/** One run of the binary in a directory of its own, where it finds its configuration. */
class Program {
  constructor(args, { config = "", env = {} } = {}) {
    assert.ok(BINARY, "set SLUICEGATE to the binary, or use tests/sdk/run");
    this.directory = mkdtempSync(join(tmpdir(), "sluicegate-sdk-"));
    writeFileSync(join(this.directory, "sluicegate.toml"), config);
    this.said = "";
    this.process = spawn(BINARY, args, {
      cwd: this.directory,
      env: { PATH: process.env.PATH, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const output of [this.process.stdout, this.process.stderr]) {
      output.on("data", (data) => (this.said += data));
    }
    this.gone = new Promise((resolve) => this.process.once("exit", resolve));
  }

  /** Waits for what `condition` gives, as long as the program runs. */
  async until(condition) {
    const end = Date.now() + PATIENCE;
    while (Date.now() < end && this.process.exitCode === null) {
      const found = await condition();
      if (found) return found;
      await pause(10);
    }
    throw new Error(`${this.process.spawnargs} is not up:\n${this.said}`);
  }

  async stop() {
    this.process.kill("SIGKILL");
    await this.gone;
    rmSync(this.directory, { recursive: true });
  }
}

/** `sluicegate mock --strict` and its control paths. */
export class Mock extends Program {
  static async start() {
    const mock = new Mock(["mock", "--strict", "--listen", "127.0.0.1:0"]);
    [mock.url] = await mock.until(() => mock.said.match(/http:\/\/127\.0\.0\.1:\d+/));
    return mock;
  }

  async #control(path, body) {
    const answer = await fetch(this.url + path, body === undefined ? {} : { method: "POST", body });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return JSON.parse(text);
  }

  stats = () => this.#control("/__stats");
  script = (text) => this.#control("/__script", text);
  limits = (limits) => this.#control("/__limits", JSON.stringify(limits));
  reset = () => this.#control("/__reset", "");

  /** The requests as the provider got them. */
  async requests() {
    const { requests } = await this.#control("/__requests");
    return requests.map(({ body_base64, headers, ...rest }) => ({
      ...rest,
      headers,
      header: (name) => headers.find(([known]) => known === name)?.[1],
      body: Buffer.from(body_base64, "base64"),
      json() {
        return JSON.parse(this.body);
      },
    }));
  }

  /** Waits until the statistics satisfy `condition`; fails when it takes longer than `within` milliseconds. */
  async comesTo(condition, within = PATIENCE) {
    const end = Date.now() + within;
    for (;;) {
      const stats = await this.stats();
      if (condition(stats)) return stats;
      assert.ok(Date.now() < end, `not within ${within} ms: ${JSON.stringify(stats)}`);
      await pause(5);
    }
  }
}

/** `sluicegate serve` in front of a mock, which it knows as two providers unless told otherwise. */
export class Gate extends Program {
  static async start(upstream, { only, flags = [], ...more } = {}) {
    const [port, admin] = await freePorts(2);
    const listen = ["--listen", `127.0.0.1:${port}`, "--admin-listen", `127.0.0.1:${admin}`];
    const known = { openai: `${upstream}/v1`, anthropic: upstream };
    const named = Object.entries(known).filter(([name]) => !only || name === only);
    const providers = named.flatMap(([name, url]) => ["--provider", `${name}=${url}`]);
    const gate = new Gate(["serve", ...listen, ...providers, ...flags], more);
    gate.url = `http://127.0.0.1:${port}`;
    await gate.until(() => isOpen(port));
    return gate;
  }
}

/** A provider and a gate for one test, ended with it. */
export async function rig(t, options) {
  const mock = await Mock.start();
  t.after(() => mock.stop());
  const gate = await Gate.start(mock.url, options);
  t.after(() => gate.stop());
  return { mock, gate, twice: new Twice(mock, gate) };
}

/** Ports that were free a moment ago. */
async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
    }),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function isOpen(port) {
  return new Promise((resolve) => {
    const probe = connect(port, "127.0.0.1");
    probe.once("connect", () => (probe.destroy(), resolve(true)));
    probe.once("error", () => resolve(false));
  });
}
