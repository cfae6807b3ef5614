"""Modules under ``torch.compile(backend=...)``, compared with eager PyTorch."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
import torch
from torch import library, nn
from torch.utils.checkpoint import checkpoint

import graphwright as gw
from graphwright.torch import backend, report
from tests.resident import resident
from tests.threads import in_threads
from tests.torch.support import close, compiled


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * 4 * 4, 5), nn.GELU(), nn.LayerNorm(5),
    )  # fmt: skip


def test_the_name_is_registered() -> None:
    assert "graphwright" in torch._dynamo.list_backends()


def test_images_without_gradients() -> None:
    model, x = images().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        close(compiled(model)(x), model(x))
    assert report()[-1].missing == ()


def test_images_with_gradients() -> None:
    model, x = images(), torch.randn(4, 3, 8, 8)
    mine = copy.deepcopy(model)
    for run in (model, compiled(mine)):
        run(x).square().sum().backward()
    for want, got in zip(model.parameters(), mine.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-4)
    for want, got in zip(model.buffers(), mine.buffers(), strict=True):
        close(got, want)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Recomputed(nn.Module):
    """The random state of the dropout is saved, and used again by the backward graph."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.block, x, use_reentrant=False) * 2


def test_a_backward_graph_is_compiled_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    run = compiled(model)
    for _ in range(4):
        run(torch.randn(3, 4)).sum().backward()
    assert {graph.kind: graph.compilations for graph in report(run)} == {"forward": 1, "backward": 1}


@pytest.mark.parametrize(
    ("model", "operators"),
    [
        (Attention(), []),
        (Recomputed(), ["native_dropout"]),
    ],
    ids=["attention", "checkpoint"],
)
def test_gradients_are_those_of_pytorch_and_its_operators_are_listed(
    model: nn.Module, operators: list[str]
) -> None:
    mine, x = copy.deepcopy(model), torch.randn(2, 5, 8)
    for run in (model, compiled(mine)):
        torch.manual_seed(3)
        run(x).square().sum().backward()
    for want, got in zip(model.parameters(), mine.parameters(), strict=True):
        assert want.grad is not None
        largest = want.grad.abs().max().item()  # its elements are sums, of which some cancel
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-6, atol=1e-6 * largest)
    forward = next(graph for graph in report(run).graphs if graph.kind == "forward")
    assert [each.operator.split(".")[1].lstrip("_") for each in forward.missing] == operators


def test_random_numbers_are_drawn_in_the_order_of_the_graph() -> None:
    """The second operator waits for a compiled subgraph, and so do all operators after it."""

    def draw(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.rand(2), torch.multinomial(x.softmax(-1), 2), torch.randperm(9), torch.rand_like(x) * x]

    run, x = compiled(draw), torch.randn(4, 3)
    with torch.no_grad():
        torch.manual_seed(1)
        expected = draw(x)
        torch.manual_seed(1)
        close(run(x), expected)
    assert {each.reason for each in report(run).missing} == {"it draws random numbers"}


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.zeros(3)}),
        lambda m: m.weight.add_(1),
        lambda m: setattr(m.weight, "data", torch.full((3, 4), 2.0)),
        lambda m: setattr(m, "weight", nn.Parameter(torch.full((3, 4), 3.0))),
        lambda m: nn.init.zeros_(m.bias),
    ],
    ids=["load_state_dict", "in place", "data", "replaced", "init"],
)
def test_changed_parameters_are_noticed(change: Callable[[nn.Module], Any]) -> None:
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        run = compiled(model)
        close(run(x), model(x))
        for _ in range(4):
            change(model)
            close(run(x), model(x))


def test_one_graph_serves_several_modules() -> None:
    layers, x = [nn.Linear(4, 4) for _ in range(3)], torch.randn(2, 4)
    run = compiled(lambda layer, given: layer(given).relu())
    with torch.no_grad():
        for _ in range(2):
            for layer in layers:
                close(run(layer, x), layer(x).relu())


def test_dynamic_sizes_are_compiled_once() -> None:
    run = compiled(lambda a, b: (a @ b).softmax(-1).reshape(-1), dynamic=True)
    before = len(report())
    for n, m in ((3, 5), (7, 2), (11, 13)):
        a, b = torch.randn(n, m), torch.randn(m, n)
        close(run(a, b), (a @ b).softmax(-1).reshape(-1))
    assert len(report()) - before == 1


def test_sizes_can_be_results() -> None:
    run = compiled(lambda x: (x + x.shape[0], x.shape[0] * 2, None), dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 2)
        result, size, nothing = run(x)
        close(result, x + n)
        assert (size, nothing) == (2 * n, None)


def test_floats_of_dynamic_sizes_do_not_split_graphs() -> None:
    norm = nn.BatchNorm1d(3)
    expected = copy.deepcopy(norm)
    run = compiled(lambda x: norm(x * (x[0, 0].item() / x.shape[0])), dynamic=True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        for rows in (4, 7):
            x = torch.randn(rows, 3)
            close(run(x), expected(x * (x[0, 0].item() / rows)))
    close(norm.running_var, expected.running_var)
    assert not any(graph.missing for graph in gw.torch.report(run))


def test_a_dynamic_number_that_is_not_the_size_of_a_tensor() -> None:
    run = compiled(lambda x, n: torch.ones(n) * x.sum(), dynamic=True)
    for n in (4, 9):
        x = torch.randn(3)
        close(run(x, n), torch.ones(n) * x.sum())


def test_operators_that_stay_with_pytorch() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x @ x.T + torch.eye(3)).relu() + 1

    x = torch.randn(3, 3)
    close(compiled(call)(x), call(x))
    missing = {each.operator: each.lines for each in report()[-1].missing}
    assert "test_backend.py" in missing["aten.linalg_cholesky_ex.default"][0]


@library.custom_op("graphwright_tests::fill", mutates_args=("x",))
def fill(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


def test_missing_operators_that_change_arguments_have_their_own_name() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        fill(y, 2.0)
        return y * x

    with torch.no_grad():
        close(compiled(run)(torch.ones(3)), torch.full((3,), 2.0))
    assert [each.operator for each in report()[-1].missing] == ["graphwright_tests.fill.default"]


@library.custom_op("graphwright_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.double() * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_an_operator_that_gives_another_type_than_it_states() -> None:
    x = torch.randn(3)
    result = compiled(lambda t: doubled(t).sin() + 1)(x)
    assert result.dtype == torch.float64
    close(result, (x.double() * 2).sin() + 1)


def test_strict_lists_them() -> None:
    with pytest.raises(Exception, match=r"aten\.linalg_cholesky_ex"):
        compiled(torch.linalg.cholesky, options={"strict": True})(torch.eye(3))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_of_pytorch_are_taken(mode: str) -> None:
    with torch.no_grad():
        close(compiled(lambda x: x + 1, mode=mode)(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"thread": 2}}, "there is no option thread"),
        (
            {"options": {"max_autotune": True, "triton.cudagraphs": True}},
            r"(?s)autotune is.*cudagraphs is an",
        ),
        ({"mode": "fastest"}, "the modes are default"),
        ({"options": {"strict": 1}}, "neither True nor False"),
    ],
)
def test_wrong_options_are_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(lambda x: x + 1, **arguments)(torch.ones(2))


def test_memory_order_is_that_of_eager() -> None:
    model, x = nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        result, expected = compiled(model)(x), model(x)
        close(result, expected)
        assert result.stride() == expected.stride()
        turned = compiled(lambda t: (t + 1).transpose(0, 1))(torch.randn(2, 3))
    assert turned.stride() == (1, 3)


def test_runs_have_no_more_threads_than_pytorch() -> None:
    """PyTorch sets one thread in workers of data loaders, and in each process of several on a machine."""
    script = """
import torch, graphwright as gw
from graphwright import _native

gw.set_threads(3)
model, x = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()), torch.randn(512, 512)
run = torch.compile(model, backend="graphwright")
with torch.no_grad():
    for count in (1, 2, 8):
        torch.set_num_threads(count)
        for _ in range(20):
            run(x)
        print(_native.workers())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "1", "2"], done.stderr


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.uint8])
def test_results_have_the_dtype_of_eager_mode(dtype: torch.dtype) -> None:
    x = torch.arange(12).reshape(3, 4).to(dtype)
    result = compiled(lambda t: (t * 2 + 1).sum(0))(x)
    assert result.dtype == (x * 2 + 1).sum(0).dtype
    close(result.double(), (x * 2 + 1).sum(0).double())


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (3, 0), (1, 1)])
def test_sizes_of_zero_and_one(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    close(compiled(lambda t: (t.exp() + 1, t.sum(), t * t))(x), (x.exp() + 1, x.sum(), x * x))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * 2


def test_buffers_that_a_call_changes() -> None:
    model = Counter()
    run = compiled(model)
    with torch.no_grad():
        for k in range(1, 6):
            close(run(torch.ones(2)), torch.full((2,), 2.0 * k))
    assert model.count.tolist() == [5, 5]


def test_randomness_is_that_of_eager() -> None:
    run, x = compiled(lambda t: nn.functional.dropout(t, 0.5) * 2), torch.randn(50)
    torch.manual_seed(3)
    result = run(x)
    torch.manual_seed(3)
    close(result, nn.functional.dropout(x, 0.5) * 2)


def test_parameters_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model, x = nn.Linear(4, 3), torch.randn(2, 4)
        run = compiled(model)
        for _ in range(3):
            close(run(x), model(x))
            model.weight.add_(1)


def test_a_compiled_module_runs_in_several_threads() -> None:
    model, wrong = images().eval(), []
    run = compiled(model)
    with torch.no_grad():
        run(torch.randn(2, 3, 8, 8))

    def work(seed: int) -> None:
        x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for _ in range(20):
                if not torch.allclose(run(x), model(x), rtol=1e-4, atol=1e-5):
                    wrong.append(seed)

    in_threads(work, range(8))
    assert not wrong


def test_memory_stays_flat_over_calls() -> None:
    """Sizes are static or dynamic, with a limited number of cached plans, and a parameter changes."""
    module, scale = (
        nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval(),
        nn.Parameter(torch.ones(4)),
    )
    fixed, dynamic = compiled(module, dynamic=False), compiled(lambda x: module(x) * scale, dynamic=True)
    x, after = torch.randn(64, 16), []
    with torch.no_grad():
        for turn in range(10_001):
            fixed(x)
            dynamic(x[: 2 + turn % 61])
            if turn % 100 == 0:
                scale.add_(1)
            if turn and turn % 1000 == 0:
                after.append(resident())
    close(dynamic(x), module(x) * scale)
    # a leak grows with every thousand calls; pages that come back from swap arrive once
    assert median(later - before for before, later in pairwise(after)) < 100_000


def test_results_do_not_share_memory() -> None:
    run = compiled(lambda x: (x + 1, torch.ones(3)))
    first, constant = run(torch.zeros(3))
    constant.add_(5)
    second, again = run(torch.ones(3))
    assert first.tolist() == [1, 1, 1]
    assert second.tolist() == [2, 2, 2]
    assert again.tolist() == [1, 1, 1]


def test_the_package_is_found() -> None:
    assert "torch" in dir(gw)
    assert gw.torch.report is report


def test_the_report_of_a_compiled_function() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.linalg.cholesky(x @ x.T + torch.eye(3))
        torch._dynamo.graph_break()
        return torch.linalg.cholesky(y @ y.T + torch.eye(3)) * 2

    run, other = compiled(call), compiled(lambda x: x + 1)
    x = torch.randn(3, 3)
    run(x), other(x)
    found = gw.torch.report(run)
    assert len(found) == 2
    (missing,) = [each for each in found.missing if each.operator == "aten.linalg_cholesky_ex.default"]
    assert len(missing.lines) == 2
    (stop,) = found.breaks
    assert "graph_break" in stop.reason
    assert "test_backend.py" in stop.line
    assert [graph.parts for graph in found] == [1, 2]
    assert all(graph.seconds > 0 and graph.compilations == graph.parts for graph in found)
    assert str(found).startswith("2 graphs, 1 graph break, ")
    assert f"  PyTorch runs {found[0].missing[0]}" in str(found)
    assert [graph.missing for graph in gw.torch.report(other)] == [()]


def test_the_report_of_modules() -> None:
    model, x = images().eval(), torch.randn(2, 3, 8, 8)
    run = compiled(model)
    assert len(gw.torch.report(run)) == 0
    run(x)
    assert [graph.kind for graph in gw.torch.report(run)] == ["forward"]
    with torch.no_grad():
        run(x)
    assert [graph.kind for graph in gw.torch.report(run)] == ["forward", "inference"]
    for _ in range(2):  # the second shares the graph of the first
        mine = Counter()
        mine.compile(backend=backend)
        with torch.no_grad():
            mine(torch.ones(2))
        assert [graph.kind for graph in gw.torch.report(mine)] == ["inference"]
    with pytest.raises(TypeError, match=r"report takes the result of torch\.compile, not Sequential"):
        gw.torch.report(images())


def test_an_operator_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for n in (2, 3, 4):
        compiled(lambda x: torch.linalg.eigvalsh(x) + 1, dynamic=False)(torch.eye(n))
    assert sum("aten._linalg_eigh" in text for text in caplog.messages) == 1
