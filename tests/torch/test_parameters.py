"""Parameters that are constants of compiled graphs, and what changes them."""

from __future__ import annotations

import copy
import gc
import os
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.torch import compiled_graph, frozen_models
from tests.threads import in_threads
from tests.torch.support import close, compiled


@pytest.mark.parametrize(
    "change",
    [
        lambda m, k: m.weight.data.copy_(torch.full((64, 64), float(k))),
        lambda m, k: m.weight.data.add_(1),
        lambda m, k: setattr(m, "weight", nn.Parameter(torch.full((64, 64), float(k)))),
        lambda m, k: (
            delattr(m, "weight"),
            setattr(m, "weight", nn.Parameter(torch.full((64, 64), 1.0 * k))),
        ),
        lambda m, k: (
            setattr(m.weight, "data", torch.empty(0)),
            setattr(m.weight, "data", torch.randn(64, 64)),
        ),
        lambda m, k: setattr(m.weight, "data", torch.randn(64, 64).t()),
        lambda m, k: m.load_state_dict(nn.Linear(64, 64).state_dict(), assign=True),
    ],
    ids=["data.copy_", "data.add_", "replaced", "deleted and replaced", "data twice", "strides", "assigned"],
)
def test_changed_parameters_are_packed_again(change: Callable[[nn.Linear, int], Any]) -> None:
    model, x = nn.Linear(64, 64), torch.randn(2, 64)
    run = compiled(model)
    with torch.no_grad():
        for k in range(5):
            close(run(x), model(x))
            change(model, k)
    assert all(graph.compilations <= 3 for graph in gw.torch.report(run))


def test_parameters_of_other_kinds() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    run = compiled(model)
    with torch.no_grad():
        run(x)
        model[0] = nn.Linear(4, 4, dtype=torch.float64)
        close(run(x.double()), model(x.double()))
        model[0] = nn.Linear(4, 3, bias=False)
        close(run(x), model(x))
        del model[0].weight
        with pytest.raises(AttributeError, match="weight"):
            run(x)
        model[0].weight = nn.Parameter(torch.randn(5, 4))
        close(run(x), model(x))


def test_changes_of_shared_parameters_are_noticed() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    model[1].weight = model[0].weight
    run = compiled(model)
    with torch.no_grad():
        close(run(x), model(x))
        model[0].weight.mul_(2)
        close(run(x), model(x))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + x
        return self.count * 2


def test_a_buffer_that_each_call_replaces_is_no_constant() -> None:
    run = compiled(Counting())
    with torch.no_grad():
        for k in range(1, 8):
            close(run(torch.ones(3)), torch.full((3,), 2.0 * k))
    assert gw.torch.report(run)[-1].compilations <= 3


def test_a_copy_of_a_compiled_module() -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    run = compiled(model)
    with torch.no_grad():
        run(x)
        other = copy.deepcopy(run)
        other.weight.mul_(2)
        close(other(x), x @ other.weight.T + other.bias)
        close(run(x), model(x))


def test_packed_copies_are_freed_with_their_parameters() -> None:
    known = set(frozen_models._OF_ALL_GRAPHS)
    model, x = nn.Linear(64, 64), torch.randn(2, 64)
    run = compiled(model)
    with torch.no_grad():
        run(x)
    (models,) = set(frozen_models._OF_ALL_GRAPHS) - known
    (made,) = [weakref.ref(held.model) for held in models._models.values()]
    model.weight = nn.Parameter(torch.randn(64, 64))
    gc.collect()
    assert made() is None


def test_graphs_share_what_they_pack_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_graph, "MOST_WEIGHTS", 0)
    model, known = nn.Sequential(nn.Linear(48, 64), nn.Linear(64, 80)), set(frozen_models._OF_ALL_GRAPHS)
    run = compiled(model, dynamic=False)

    def blocks() -> list[Any]:
        graphs = set(frozen_models._OF_ALL_GRAPHS) - known
        return [held.model.package.weights for models in graphs for held in models._models.values()]

    with torch.no_grad():
        for rows in (12, 36):
            x = torch.randn(rows, 48)
            close(run(x), model(x))
        first, second = blocks()
        assert first.region is second.region
        assert len(first.data) == len(second.data)
        model[0].weight.add_(1)
        for rows in (12, 36):
            x = torch.randn(rows, 48)
            close(run(x), model(x))
        assert len({id(weights.region) for weights in blocks()}) == 1
        assert first.region not in [weights.region for weights in blocks()]


def test_calls_do_not_grow_memory() -> None:
    model, x = nn.Linear(8, 8), torch.randn(2, 8)
    run, growth = compiled(model), []
    with torch.no_grad():
        run(x)
        tracemalloc.start()
        for _ in range(5):
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(100):
                run(x)
            gc.collect()
            growth.append(tracemalloc.get_traced_memory()[0] - before)
        tracemalloc.stop()
    assert min(growth) < 100 * 16  # less than the smallest object of each call


def test_the_first_call_from_eight_threads() -> None:
    model, wrong = nn.Sequential(*[nn.Linear(16, 16) for _ in range(3)]), []
    run, start = compiled(model), threading.Barrier(8)

    def work(seed: int) -> None:
        x = torch.randn(2, 16, generator=torch.Generator().manual_seed(seed))
        start.wait()
        with torch.no_grad():
            for _ in range(5):
                if not torch.allclose(run(x), model(x), rtol=1e-4, atol=1e-5):
                    wrong.append(seed)

    in_threads(work, range(8))
    assert not wrong
    assert gw.torch.report(run)[-1].compilations == 1


def test_threads_that_change_parameters() -> None:
    """Each result belongs to the parameters before or after a change."""
    model = nn.Linear(4, 4, bias=False)
    model.weight.requires_grad_(requires_grad=False).fill_(1)
    run, x, wrong, stop = compiled(model), torch.ones(1, 4), [], threading.Event()

    def work() -> None:
        with torch.no_grad():
            while not stop.is_set():
                if float(run(x)[0, 0]) % 4:
                    wrong.append(run(x))

    workers = [threading.Thread(target=work) for _ in range(3)]
    with torch.no_grad():
        run(x)
        for worker in workers:
            worker.start()
        for k in range(2, 6):
            model.weight = nn.Parameter(torch.full((4, 4), float(k)), requires_grad=False)
            assert float(run(x)[0, 0]) == 4 * k
        stop.set()
        for worker in workers:
            worker.join()
    assert not wrong


def test_a_forked_process_runs_what_was_compiled() -> None:
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(2, 16)
    run = compiled(model)
    with torch.no_grad():
        expected = model(x)
        run(x)
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            os._exit(0 if torch.allclose(run(x), expected, rtol=1e-4, atol=1e-5) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_released_parameters_are_nan_and_named_in_errors() -> None:
    model, x = nn.Linear(700, 900), torch.randn(3, 700)
    expected, state = model(x).detach(), copy.deepcopy(model.state_dict())
    run = compiled(model, dynamic=False, options={"release_weights": True})
    with torch.no_grad():
        for _ in range(3):
            close(run(x), expected)
        assert model.weight.shape == (900, 700)
        assert model.weight.isnan().all()  # the module itself has them no more
        with pytest.raises(gw.GraphwrightError, match=r"parameter arg.*\(900, 700\), was released") as caught:
            run(x[:2])  # another graph
        assert len(caught.value.diagnostics) == 2
        close(run(x), expected)
        state["bias"] += 1
        model.load_state_dict(state)
        close(run(x), expected + 1)
        assert model.bias.isnan().all()
        model.load_state_dict(state, assign=True)
        close(run(x), expected + 1)


def test_released_parameters_free_their_memory() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    model, x = nn.Linear(4096, 8192), torch.randn(1, 4096)
    run = compiled(model, options={"release_weights": True})
    before = resident()
    with torch.no_grad():
        for _ in range(3):
            run(x)
    gc.collect()
    assert resident() - before < 64 << 20  # of 128 MiB that are packed
