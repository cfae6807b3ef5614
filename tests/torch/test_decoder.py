"""Decoders with a static cache: a prompt, then one token at a time, compared with eager PyTorch."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import graphwright as gw
from graphwright.low_ir.tasks import TaskKind
from graphwright.runtime.devices.cpu import Cpu
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


def test_an_exported_decoder_keeps_its_cache(tmp_path: Path) -> None:
    """A package has two entries, for the prompt and for one token, which share the cache."""
    model, hidden = Decoder(2, capacity=20, layers=1).eval(), torch.tensor([0, 2])
    prompt = torch.randint(VOCABULARY, (2, 7))
    steps = {
        name: torch.export.export(model, (prompt[:, :n], torch.arange(n), hidden))
        for name, n in (("prompt", 7), ("step", 1))
    }
    with torch.no_grad():
        expected = copy.deepcopy(model).generate(prompt, 5, hidden)
    made = gw.compile(steps)
    made.save(tmp_path / "decoder.om")
    both = gw.load(tmp_path / "decoder.om")
    assert sorted(both.states) == ["layers.0.keys", "layers.0.values"]
    step = both.entries["step"].executor
    assert isinstance(step, Cpu)
    assert not [task for task in step.task_graph.tasks if task.kind is TaskKind.COPY]
    for _ in range(2):
        scores = [torch.from_numpy(both.entries["prompt"](prompt, torch.arange(7), hidden))]
        for k in range(7, 11):
            token = scores[-1].argmax(-1, keepdim=True)
            scores.append(torch.from_numpy(both.entries["step"](token, torch.tensor([k]), hidden)))
        close(torch.stack(scores, dim=1), expected)
        assert both.states["layers.0.keys"][:, :, 10].any()
        both.reset()
        assert not both.states["layers.0.keys"].any()
