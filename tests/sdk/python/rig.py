"""A scripted provider and a gate in front of it, each a real process on a free loopback port.

Both have a clean environment, so that nobody's keys and settings get into a test.
"""

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

BINARY = os.environ.get("SLUICEGATE", "")
#: For a process to come up, and for a condition that a test waits for.
PATIENCE = 10.0


class Program:
    """One run of the binary in a directory of its own, where it finds its configuration.

    Its output is kept and shown when something goes wrong.
    """

    def __init__(self, *arguments, config="", env=None):
        self.directory = tempfile.TemporaryDirectory(prefix="sluicegate-sdk-")
        Path(self.directory.name, "sluicegate.toml").write_text(config)
        self.output = Path(self.directory.name, "output")
        self.process = subprocess.Popen(
            [BINARY, *arguments],
            cwd=self.directory.name,
            env={"PATH": os.environ["PATH"], **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=self.output.open("wb"),
            stderr=subprocess.STDOUT,
        )

    def said(self):
        return self.output.read_text(errors="replace")

    def until(self, condition):
        """Waits for what `condition` gives, as long as the program runs."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if found := condition():
                return found
            time.sleep(0.01)
        raise AssertionError(f"{self.process.args} is not up:\n{self.said()}")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


@dataclass
class Received:
    """A request as the provider got it."""

    method: str
    path: str
    version: str
    headers: list
    body: bytes

    def header(self, name):
        return next((value for known, value in self.headers if known == name), None)

    def json(self):
        return json.loads(self.body)


class Mock(Program):
    """`sluicegate mock --strict` and its control paths."""

    def __init__(self, *flags):
        super().__init__("mock", "--strict", "--listen", "127.0.0.1:0", *flags)
        found = self.until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)", self.said()))
        self.port = int(found[1])
        self.url = found[0]

    def _control(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def stats(self):
        return self._control("GET", "/__stats")

    def arrived(self):
        return self.stats()["arrived"]

    def hang_ups(self):
        return self.stats()["hang_ups"]["count"]

    def script(self, text):
        self._control("POST", "/__script", text)

    def limits(self, **limits):
        self._control("POST", "/__limits", json.dumps(limits))

    def reset(self):
        self._control("POST", "/__reset")

    def requests(self):
        kept = self._control("GET", "/__requests")["requests"]
        return [
            Received(
                one["method"],
                one["path"],
                one["version"],
                [tuple(pair) for pair in one["headers"]],
                base64.b64decode(one["body_base64"]),
            )
            for one in kept
        ]

    def comes_to(self, condition, within):
        """How long it takes until `condition` holds; fails when it takes longer than `within`."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < within, f"not within {within} s: {self.stats()}"
            time.sleep(0.005)
        return time.monotonic() - began


class Gate(Program):
    """`sluicegate serve` in front of a mock, which it knows as two providers unless told otherwise."""

    def __init__(self, upstream, *flags, only=None, config="", env=None):
        port, admin = free_ports(2)
        providers = {"openai": f"{upstream}/v1", "anthropic": upstream}
        named = [f"{name}={url}" for name, url in providers.items() if only in (None, name)]
        super().__init__(
            "serve",
            *("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}"),
            *(word for one in named for word in ("--provider", one)),
            *flags,
            config=config,
            env=env,
        )
        self.url = f"http://127.0.0.1:{port}"
        self.until(lambda: is_open(port))


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
