"""A provider that is silent for long: signs of life reach the SDK, which takes no notice of them."""

import anthropic
import openai
import pytest

from calls import ALL, BOTH
from twice import told

#: Far shorter than the provider's silence.
SHORT = 'keep_alive = "100ms"\n'


@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("silence", [{"latency": "600ms"}, {"first_byte": "600ms"}])
def test_signs_of_life_change_nothing(mock, gate_with, which, silence):
    gate = gate_with(config=SHORT)
    connect, call = ALL[which]
    seen = []
    for url in (mock.url, gate.url):
        mock.reset()
        mock.limits(**silence)
        # Without them the SDK would give up: nothing comes for longer than it waits. It does not tell the gate.
        patience = {} if url == mock.url else {"timeout": openai.Timeout(20, read=0.4)}
        headers = {"x-stainless-read-timeout": "20"}
        with connect(url, max_retries=0, **patience) as client:
            seen.append(told(list(call(client, stream=True, extra_headers=headers))))
    direct, gated = seen
    assert gated == direct


@pytest.mark.parametrize("which", BOTH)
def test_an_error_after_the_head_is_an_error_event(mock, gate_with, which):
    gate = gate_with(config=SHORT)
    mock.script("hang 600ms; ok")
    connect, call = BOTH[which]
    with connect(gate.url) as client, pytest.raises((openai.APIError, anthropic.APIError)) as raised:
        list(call(client, stream=True))
    assert "provider" in str(raised.value)
    assert mock.arrived() == 1
