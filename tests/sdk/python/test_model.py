"""The callers of `sluicegate bench` are held against the SDKs that they imitate.

Each case is a script that a provider plays to four SDKs, and to the laboratory's caller of each. What both saw and what
the provider saw of them must be equal: outcome, attempts, headers, waits. What is random in a wait is bounded by the
laboratory's own word: it makes each call twice, with the longest waits and with the shortest.

Waits take their real time, so all calls are made at once, case after case a moment apart. A case in which something
differs is made again, as it may have been this machine that was late; what differs in each round is a difference.
"""

import json
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import twice
from rig import BINARY, Mock
from scripted import Provider, Step

NODE = Path(__file__).parent.parent / "node"
SDKS = ("openai-python", "openai-node", "anthropic-python", "anthropic-node")
#: The laboratory's caller, with how much of the random part is taken off its waits.
IMITATIONS = {"longest": "0", "shortest": "1"}
WHO = ("real", *IMITATIONS)
MODELS = {sdk: "gpt-5-mini" if sdk.startswith("openai") else "claude-haiku-4-5" for sdk in SDKS}

ROUNDS = 3
#: Between the starts of two cases, that this machine isn't what is measured.
APART = 0.25
#: What a wait may be longer than it should: less than the shortest wait of all, so that "at once" isn't taken for it.
LATE = 0.35
#: What a wait may seem shorter: a timeout begins a little before its request arrives.
EARLY = 0.05

#: Headers of a connection, and of Node's `fetch`.
OF_ONE_HOP = twice.OF_ONE_HOP | {"accept-language", "sec-fetch-mode"}
#: Headers that describe a caller and its machine. The laboratory says who it is.
DESCRIBING = {"user-agent"} | {
    f"x-stainless-{what}"
    for what in ("lang", "package-version", "os", "arch", "runtime", "runtime-version", "async")
}


@dataclass
class Case:
    steps: tuple
    stream: bool = False
    retries: int | None = None
    timeout: float | None = None
    #: A caller who has no outcome by then is waiting.
    watch: float = 5
    #: How much the wait itself varies, without anybody's choice.
    vague: float = 0


def once(what, *headers, **more):
    """One attempt gets this and the rest are fine."""
    return Case((Step(str(what), headers), Step("ok")), **more)


def always(what, *headers, **more):
    return Case((Step(str(what), headers),), **more)


def after(value, *more, status=429, **options):
    return once(status, ("retry-after", value), *more, **options)


def millis(value, *more, **options):
    return once(429, ("retry-after-ms", value), *more, **options)


STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 499, 500, 501, 502, 503, 504, 529, 599)
NO = ("x-should-retry", "false")
YES = ("x-should-retry", "true")
SECOND = ("retry-after", "1")

CASES = {
    # The longest one begins first.
    "waits up to the longest": always(503, retries=6, watch=35),
    **{f"status {status}": once(status) for status in STATUSES},
    "status for good": always(500),
    "status after status": Case((Step("503"), Step("400"), Step("ok"))),
    "no retries": always(503, retries=0),
    "should not": once(503, NO),
    "should not, wait": once(429, NO, SECOND),
    "should": once(400, YES),
    "should, for good": always(404, YES),
    "should, wait": once(422, YES, SECOND),
    "should, word unknown": once(400, ("x-should-retry", "maybe")),
    "should not, word unknown": once(503, ("x-should-retry", "maybe")),
    "should, in capitals": once(400, ("x-should-retry", "True")),
    "seconds": after("2"),
    "seconds and 503": after("1", status=503),
    "seconds and 400": after("1", status=400),
    "seconds twice": Case((Step("429", (SECOND,)), Step("429", (SECOND,)), Step("ok"))),
    "fraction": after("1.5"),
    "exponent": after("1e0"),
    "date": after(3, vague=1),
    "date that is past": after(-30),
    "date far ahead": after(3600),
    "none": after("0"),
    "negative": after("-1"),
    "nonsense": after("later"),
    "empty": after(""),
    "number and nonsense": after("1s"),
    "infinite": after("inf"),
    "no number": after("nan"),
    "60 s": after("60"),
    "61 s": after("61"),
    "120 s": after("120"),
    "121 s": after("121"),
    "121 s, should": after("121", YES),
    "121 s for good": always(503, ("retry-after", "121")),
    "more than a timer holds": after("2147484"),
    "more than an int holds": after("5000000000"),
    "more than a float holds": after("1e999"),
    "milliseconds": millis("900"),
    "milliseconds before seconds": millis("900", ("retry-after", "3")),
    "milliseconds with a fraction": millis("900.5"),
    "milliseconds, nonsense": millis("soon", SECOND),
    "milliseconds, none": millis("0"),
    "milliseconds, none, before seconds": millis("0", SECOND),
    "milliseconds, negative, before seconds": millis("-5", SECOND),
    "milliseconds, infinite, before seconds": millis("inf", SECOND),
    "milliseconds, too many": millis("130000"),
    "reset": once("reset"),
    "reset for good": always("reset"),
    "hang": once("hang", timeout=1),
    "hang for good": always("hang", timeout=1, retries=1),
    "answer that pauses": once("pause", timeout=1),
    "answer that is cut": once("cut"),
    "answer that is garbage": once("garbage"),
    "stream": always("ok", stream=True),
    "stream, 503 before it": once(503, stream=True),
    "stream, 400 before it": once(400, stream=True),
    "stream, seconds before it": after("1", status=529, stream=True),
    "stream, should not": once(503, NO, stream=True),
    "stream, reset before it": once("reset", stream=True),
    "stream, hang before it": once("hang", stream=True, timeout=1),
    "stream that is cut": once("cut", stream=True),
    "stream with an error": once("error", stream=True),
    "stream that pauses": once("pause", stream=True, timeout=1),
}


class Calls:
    """All calls of all cases, and what became of them."""

    def __init__(self, provider):
        self.provider = provider
        #: What a call's caller got, and all that the laboratory's caller says; by the call's name.
        self.outcomes = {}
        self.said = {}
        #: By case and SDK, the differences of the last round, or none if there was a round without.
        self.found = {}
        #: How often a case was made: whoever still waits in an earlier round has another path.
        self.rounds = Counter()
        self.clients = {"openai-python": twice.openai(""), "anthropic-python": twice.anthropic("")}
        self.node = subprocess.Popen(
            ["node", "caller.mjs"], cwd=NODE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._hear_node, daemon=True).start()

    def make(self, cases):
        """Makes the calls of these cases anew, and watches them."""
        ends = {}
        for case in cases:
            self.rounds[case] += 1
            for sdk in SDKS:
                self._begin(case, sdk)
            ends[case] = time.monotonic() + CASES[case].watch + 1
            time.sleep(APART)
        while any(time.monotonic() < ends[case] and not self._is_over(case) for case in cases):
            time.sleep(0.05)
        for case in cases:
            for sdk in SDKS:
                if self.found.get((case, sdk), True):
                    self.found[case, sdk] = self.differences(case, sdk)

    def stop(self):
        self.node.kill()
        self.node.wait()

    def named(self, case, sdk, who):
        """A call's name, which its path begins with."""
        return f"{list(CASES).index(case)}-{self.rounds[case]}-{sdk}-{who}"

    def _is_over(self, case):
        return all(self.named(case, sdk, who) in self.outcomes for sdk in SDKS for who in WHO)

    def _begin(self, case, sdk):
        for who in WHO:
            call = self.named(case, sdk, who)
            url = self.provider.script(call, *CASES[case].steps, timeout=CASES[case].timeout or 0)
            if who in IMITATIONS:
                run = (self._imitate, call, sdk, CASES[case], url, IMITATIONS[who])
            elif sdk in self.clients:
                run = (self._call, call, sdk, CASES[case], url)
            else:
                self._tell_node(call, sdk, CASES[case], url)
                continue
            # Some wait for an hour: they end with the process.
            threading.Thread(target=run[0], args=run[1:], daemon=True).start()

    def _call(self, call, sdk, case, url):
        given = {"timeout": case.timeout, "max_retries": case.retries}
        given = {key: value for key, value in given.items() if value is not None}
        what = {"messages": [{"role": "user", "content": "hello"}], "stream": case.stream}
        try:
            if sdk == "openai-python":
                client = self.clients[sdk].with_options(base_url=f"{url}/v1", **given)
                answer = client.chat.completions.create(model=MODELS[sdk], **what)
            else:
                client = self.clients[sdk].with_options(base_url=url, **given)
                answer = client.messages.create(model=MODELS[sdk], max_tokens=1024, **what)
            if case.stream:
                list(answer)
            outcome = "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            # An error in a stream has the stream's good status.
            status = getattr(error, "status_code", 0)
            silent = "Timeout" in type(error).__name__
            outcome = str(status) if status >= 400 else "timeout" if silent else "failed"
        self.outcomes[call] = outcome

    def _tell_node(self, call, sdk, case, url):
        told = {"sdk": sdk, "url": url, "stream": case.stream, "retries": case.retries, "timeout": case.timeout}
        self.node.stdin.write(json.dumps({"id": call, **told}) + "\n")
        self.node.stdin.flush()

    def _hear_node(self):
        for line in self.node.stdout:
            told = json.loads(line)
            self.outcomes[told["id"]] = told["outcome"]

    def _imitate(self, call, sdk, case, url, random):
        base = url if sdk.startswith("anthropic") else f"{url}/v1"
        words = ["--sdk", sdk, "--url", base, "--model", MODELS[sdk], "--key", twice.KEY, "--random", random]
        words += ["--watch", f"{case.watch}s"]
        if case.stream:
            words.append("--stream")
        if case.retries is not None:
            words += ["--retries", str(case.retries)]
        if case.timeout is not None:
            words += ["--timeout", f"{case.timeout}s"]
        run = subprocess.run([BINARY, "call", *words], capture_output=True, text=True)
        said = json.loads(run.stdout) if run.returncode == 0 else {"outcome": run.stderr, "waits": []}
        self.said[call] = said
        # How an answer or a connection broke is a distinction that the SDKs' errors don't make.
        broken = said["outcome"] in ("connect", "broken", "cut", "error")
        self.outcomes[call] = "failed" if broken else said["outcome"]

    def seen(self, case, sdk, who):
        """What is the same for the SDK and for who imitates it."""
        call = self.named(case, sdk, who)
        attempts = self.provider.attempts(call)
        return {
            "outcome": self.outcomes.get(call, "waiting"),
            "attempts": len(attempts),
            "retry counts": [attempt.headers.get("x-stainless-retry-count") for attempt in attempts],
            "headers": [
                {name: value for name, value in attempt.headers.items() if name not in OF_ONE_HOP | DESCRIBING}
                for attempt in attempts
            ],
        }

    def waits(self, case, sdk, who):
        attempts = self.provider.attempts(self.named(case, sdk, who))
        return [later.arrived - sooner.ended for sooner, later in zip(attempts, attempts[1:])]

    def bounds(self, case, sdk):
        """The shortest and the longest that each wait may be, by the laboratory's own word."""
        vague = CASES[case].vague
        said = [self.said.get(self.named(case, sdk, who), {"waits": []})["waits"] for who in IMITATIONS]
        return [(min(waits) - vague, max(waits) + vague) for waits in zip(*said)]

    def differences(self, case, sdk):
        """In what the SDK and those who imitate it differ, in words."""
        found = []
        real = self.seen(case, sdk, "real")
        for who in IMITATIONS:
            imitated = self.seen(case, sdk, who)
            found += [
                f"{what}: {real[what]}, but {imitated[what]} of who waits the {who}"
                for what in real
                if real[what] != imitated[what]
            ]
        bounds = self.bounds(case, sdk)
        for who in WHO:
            waits = self.waits(case, sdk, who)
            if any(not least - EARLY <= wait <= most + LATE for wait, (least, most) in zip(waits, bounds)):
                found.append(f"waits ({who}): {waits}, but they should be within {bounds}")
        # Who is waiting has a wait that no attempt has followed.
        is_waiting = real["outcome"] == "waiting"
        if len(bounds) != real["attempts"] - 1 + is_waiting:
            found.append(f"{real['attempts']} attempts, but waits of {bounds}")
        return found


@pytest.fixture(scope="module")
def calls():
    mock = Mock()
    provider = Provider(mock, {step.what for case in CASES.values() for step in case.steps})
    mock.stop()
    calls = Calls(provider)
    for _ in range(ROUNDS):
        calls.make([case for case in CASES if any(calls.found.get((case, sdk), True) for sdk in SDKS)])
    yield calls
    calls.stop()
    provider.stop()


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("case", CASES)
def test_the_imitation_does_what_the_sdk_does(calls, case, sdk):
    assert not calls.found[case, sdk]


@pytest.mark.parametrize("sdk", SDKS)
def test_the_cases_make_the_sdk_do_what_they_are_about(calls, sdk):
    """Two who both do nothing are equal as well."""

    def attempts(case):
        return calls.seen(case, sdk, "real")["attempts"]

    retried = {status for status in STATUSES if attempts(f"status {status}") == 2}
    assert retried == {408, 409, 429, 500, 501, 502, 503, 504, 529, 599}
    assert attempts("status for good") == attempts("reset for good") == 3
    assert attempts("should") == 2 and attempts("should not") == 1
    assert calls.seen("stream that is cut", sdk, "real")["outcome"] == "failed"
    assert calls.waits("seconds", sdk, "real") > [2 - EARLY]
    assert calls.waits("waits up to the longest", sdk, "real")[-1] > 6 - EARLY


@pytest.mark.parametrize("sdk", SDKS)
def test_the_imitation_names_the_version_that_is_installed(calls, sdk):
    installed = calls.provider.attempts(calls.named("stream", sdk, "real"))[0].headers["x-stainless-package-version"]
    assert calls.said[calls.named("stream", sdk, "longest")]["version"] == installed
