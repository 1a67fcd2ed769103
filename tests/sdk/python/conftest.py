"""Every test has a provider and a gate of its own, so that none sees what another left behind."""

import pytest

from rig import BINARY, Gate, Mock
from tongues import KEYS
from twice import Twice


def pytest_sessionstart(session):
    if not BINARY:
        raise pytest.UsageError("set SLUICEGATE to the binary, or use tests/sdk/run")


@pytest.fixture
def mock():
    mock = Mock()
    yield mock
    mock.stop()


@pytest.fixture
def gate(mock):
    gate = Gate(mock.url)
    yield gate
    gate.stop()


@pytest.fixture
def gate_with(mock):
    """Starts gates with flags, a configuration or an environment of their own."""
    gates = []

    def start(*flags, **more):
        gates.append(Gate(mock.url, *flags, **more))
        return gates[-1]

    yield start
    for gate in gates:
        gate.stop()


@pytest.fixture
def translator(gate_with):
    """A gate with keys of its own for both vendors, as translated calls need one."""
    return gate_with(env=KEYS)


@pytest.fixture
def twice(mock, gate):
    return Twice(mock, gate)


FIGURES = []


@pytest.fixture
def figures():
    """Keeps a line to be shown at the end, however the tests went."""
    return FIGURES.append


def pytest_terminal_summary(terminalreporter):
    for line in FIGURES:
        terminalreporter.write_line(line)
