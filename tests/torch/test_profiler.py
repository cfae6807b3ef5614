"""Graphs that graphwright runs, in PyTorch's profiler and in graphwright's."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import torch
from torch import nn
from torch.profiler import ProfilerActivity

import graphwright as gw
from graphwright.profiling.rows import BETWEEN


def frames(p: torch.profiler.profile) -> Counter[str]:
    """The number of occurrences of each of graphwright's frames in PyTorch's trace."""
    return Counter(event.name for event in p.events() if event.name.startswith("graphwright"))


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def test_a_frame_for_each_call_of_a_graph() -> None:
    eager, x = module(), torch.randn(5, 4)
    compiled = torch.compile(eager, backend="graphwright")
    with torch.no_grad():
        compiled(x)
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as p:
            for _ in range(3):
                torch.testing.assert_close(compiled(x), eager(x))
        assert frames(p) == {"graphwright: inference graph": 3}
        torch.testing.assert_close(compiled(x), eager(x))


def test_forward_and_backward_have_frames() -> None:
    compiled, x = torch.compile(module(), backend="graphwright"), torch.randn(5, 4)
    compiled(x).sum().backward()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as p:
        compiled(x).sum().backward()
    assert frames(p) == {"graphwright: forward graph": 1, "graphwright: backward graph": 1}


def test_a_profile_of_graphwright_sees_the_tasks() -> None:
    compiled, x = torch.compile(module(), backend="graphwright"), torch.randn(5, 4)
    with torch.no_grad():
        compiled(x)
        with gw.profile() as p:
            compiled(x)
            compiled(x)
    rows = [row for row in p.rows(group="op") if row.name != BETWEEN]
    assert p.totals.runs == 2 and sum(row.operations for row in rows) == 2 * 2 * 5 * (4 * 8 + 8 * 3)


def test_graphs_end_with_their_module() -> None:
    eager = module()
    compiled, gone = torch.compile(eager, backend="graphwright"), weakref.ref(eager)
    with torch.no_grad(), torch.profiler.profile(activities=[ProfilerActivity.CPU]):
        compiled(torch.randn(5, 4))
    del eager, compiled
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None
