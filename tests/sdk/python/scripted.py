"""A provider with a script for each call, by the first part of its path. It keeps when attempts came, and with what.

`sluicegate mock` has one script for all calls and sets no header but `retry-after`; so this one plays the scripts. What
it answers, errors too, is what the mock has answered, byte for byte.
"""

import http.client
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: What the mock is asked for the answers, by the end of the path.
ASKED = {
    "/v1/chat/completions": ({"model": "gpt-5-mini"}, {}),
    "/v1/messages": (
        {"model": "claude-haiku-4-5", "max_tokens": 1024},
        {"anthropic-version": "2026-10-21"},
    ),
}


#: Steps that are played here; those of the same name in the mock keep no time.
OWN = {"reset", "hang", "pause", "cut", "garbage"}


@dataclass(frozen=True)
class Step:
    """What one attempt gets: an answer of the mock by its script (`ok`, `503`, `error`), or `reset`, `hang`, `pause`,
    `cut`, `garbage`.
    """

    what: str
    #: Pairs; a value that is a number of seconds, not a text, becomes the date so far ahead.
    headers: tuple = ()


@dataclass
class Attempt:
    arrived: float
    headers: dict
    #: When the caller could know what became of it.
    ended: float | None = None


@dataclass
class Script:
    steps: list
    #: A caller who gets nothing leaves after so long.
    timeout: float = 0
    attempts: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, headers):
        """The attempt, and its step; the last one stays."""
        with self.lock:
            step = self.steps[min(len(self.attempts), len(self.steps) - 1)]
            self.attempts.append(Attempt(time.monotonic(), headers))
            return self.attempts[-1], step


class Provider:
    def __init__(self, mock, whats):
        """`whats` are the steps that there will be."""
        self.scripts = {}
        self.answers = recorded(mock, {"ok", *whats} - OWN)
        self.over = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.provider = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def script(self, call, *steps, timeout=0):
        """The base URL, without `/v1`, of a call that gets this."""
        self.scripts[call] = Script(steps, timeout)
        return f"{self.url}/{call}"

    def attempts(self, call):
        return self.scripts[call].attempts

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def recorded(mock, scripts):
    """The mock's answers by path, script and whether a stream was asked for: status, content type and body."""
    answers = {}
    for script in scripts:
        mock.script(script)
        for path, (fields, headers) in ASKED.items():
            for stream in (False, True):
                body = {**fields, "messages": [{"role": "user", "content": "hello"}], "stream": stream}
                connection = http.client.HTTPConnection("127.0.0.1", mock.port, timeout=10)
                connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
                answer = connection.getresponse()
                answers[path, script, stream] = (answer.status, answer.headers["content-type"], answer.read())
                connection.close()
    return answers


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Callers leave, and connections are reset: that is what they are for."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):  # noqa: N802 - the name is given
        provider = self.server.provider
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, call, path = self.path.split("/", 2)
        script = provider.scripts[call]
        attempt, step = script.attempt({name.lower(): value for name, value in self.headers.items()})

        def answer(script):
            return provider.answers[f"/{path}", script, body.get("stream", False)]

        match step.what:
            case "reset":
                attempt.ended = time.monotonic()
                self.reset()
            case "hang":
                attempt.ended = attempt.arrived + script.timeout
                self.silence(script)
            case "pause":
                status, kind, text = answer("ok")
                self.head(status, kind, len(text))
                self.wfile.write(text[: len(text) // 2])
                attempt.ended = time.monotonic() + script.timeout
                provider.over.wait(2.5 * script.timeout)
                self.wfile.write(text[len(text) // 2 :])
            case "cut":
                status, kind, text = answer("ok")
                attempt.ended = time.monotonic()
                self.head(status, kind, len(text))
                self.wfile.write(text[: len(text) // 2])
                self.close_connection = True
            case "garbage":
                attempt.ended = time.monotonic()
                self.whole(200, "application/json", b'{"choices": [')
            case _:
                attempt.ended = time.monotonic()
                self.whole(*answer(step.what), step.headers)

    def head(self, status, kind, length, headers=()):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length))
        for name, value in headers:
            is_date = not isinstance(value, str)
            self.send_header(name, formatdate(time.time() + value, usegmt=True) if is_date else value)
        self.end_headers()

    def whole(self, status, kind, text, headers=()):
        self.head(status, kind, len(text), headers)
        self.wfile.write(text)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The files over it hold the socket open.
        self.rfile.close()
        self.connection.close()
        self.close_connection = True

    def silence(self, script):
        """Until the caller has left."""
        self.connection.settimeout(10 * script.timeout)
        self.rfile.read(1)
        self.close_connection = True
