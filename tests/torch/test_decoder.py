"""Decoders with a static cache: a prompt, and tokens one by one, beside PyTorch's own results."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.utils import counters

import graphwright as gw
from tests.torch.decoders import VOCABULARY, Decoder
from tests.torch.support import close


@pytest.mark.parametrize("batch", [1, 3])
def test_tokens_are_those_of_eager(batch: int) -> None:
    model = Decoder(batch, capacity=80).eval()
    mine, prompt = copy.deepcopy(model), torch.randint(VOCABULARY, (batch, 7))
    hidden = torch.arange(batch) % 4  # rows of padding see nothing
    mine.compile(backend=gw.torch.backend)
    places = [layer.keys.data_ptr() for layer in mine.layers]
    with torch.no_grad():
        for k in range(2):
            expected = model.generate(prompt, 6, hidden)
            close(mine.generate(prompt, 6, hidden), expected)
            if k == 0:
                counters.clear()
    assert counters["stats"]["unique_graphs"] == 0
    assert [layer.keys.data_ptr() for layer in mine.layers] == places
    for layer, same in zip(mine.layers, model.layers, strict=True):
        close(layer.keys, same.keys)
        close(layer.values, same.values)
    found = gw.torch.report(mine)
    assert (len(found), found.missing) == (2, ())


def test_prompts_of_any_length_are_one_graph() -> None:
    model = Decoder(1, capacity=40, layers=1).eval()
    mine, hidden = copy.deepcopy(model), torch.zeros(1, dtype=torch.int64)
    mine.compile(backend=gw.torch.backend, dynamic=True)
    with torch.no_grad():
        for length in (5, 9, 2, 17):
            tokens = torch.randint(VOCABULARY, (1, length))
            close(mine.generate(tokens, 3, hidden), model.generate(tokens, 3, hidden))
    assert counters["stats"]["unique_graphs"] <= 2
