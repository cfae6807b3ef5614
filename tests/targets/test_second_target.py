"""A second target in one folder goes through the whole pipeline, although no code in src names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.errors import FeedError, OptionError
from graphwright.executable.nodes import Program
from graphwright.ir.builtin.fused import Fused, Strategy, region_of
from graphwright.ir.graph import Module, Value
from graphwright.ir.loops.text import parse_kernel
from graphwright.kernels.launch import Host
from graphwright.kernels.select import select_kernels
from graphwright.ops.core.matmul import MatMul
from graphwright.passes.manager import run_passes
from graphwright.passes.traversal import nodes_of
from tests.targets.abacus.executor import KERNEL, Interpreter
from tests.targets.abacus.target import NAME, AbacusTarget

Array = np.ndarray[Any, Any]
OPTIONS = {"device": NAME, "verify": True}
WEIGHTS = (np.arange(36).reshape(6, 6) % 5 - 2) / 4


def layer(dtype: Any = np.float32) -> Module:
    """A layer as exporters write it: a normalization over rows, a product, an activation, a residual."""
    b = gw.GraphBuilder()
    x = b.input("x", dtype, ("N", 6))
    centerd = b.sub(x, b.reduce_mean(x, axes=(1,)))
    variance = b.reduce_mean(b.mul(centerd, centerd), axes=(1,))
    normal = b.div(centerd, b.sqrt(b.add(variance, np.asarray(1e-3, dtype))))
    b.output("y", b.add(x, b.tanh(b.matmul(normal, WEIGHTS.astype(dtype)))))
    return b.build()


def expected(x: Array) -> Array:
    wide = x.astype(np.float64)
    centerd = wide - wide.mean(1, keepdims=True)
    normal = centerd / np.sqrt((centerd**2).mean(1, keepdims=True) + 1e-3)
    return wide + np.tanh(normal @ WEIGHTS)


def rows(count: int) -> Array:
    return np.random.default_rng(count).normal(size=(count, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> gw.Model:
    return gw.compile(layer(), options=OPTIONS)


@settings(max_examples=8, deadline=None)
@given(count=st.integers(0, 13))
def test_a_model_runs_at_any_size(model: gw.Model, count: int) -> None:
    x = rows(count)
    np.testing.assert_allclose(*model(x), expected(x), rtol=1e-5, atol=1e-6)


def test_its_package_is_saved_loaded_and_run_again(model: gw.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "layer.om")
    loaded, x = gw.load(tmp_path / "layer.om", trust=True, options=OPTIONS), rows(5)
    np.testing.assert_array_equal(*loaded(x), *model(x))
    assert loaded.package.isas() == [NAME]


def test_other_devices_compile_its_package_again(model: gw.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "layer.om")
    x = rows(5)
    on_cpu = gw.load(tmp_path / "layer.om", trust=True, options={"device": "cpu"})
    np.testing.assert_allclose(*on_cpu(x), expected(x), rtol=1e-5, atol=1e-6)
    on_cpu.save(tmp_path / "cpu.om")
    back = gw.load(tmp_path / "cpu.om", trust=True, options=OPTIONS)
    np.testing.assert_array_equal(*back(x), *model(x))


def test_kernels_run_from_the_text_in_the_package(model: gw.Model) -> None:
    program = model.entry.executable
    assert isinstance(program, Program)
    target = program.targets[NAME]
    sources = {name: text for name, text in target.sources.items() if name.endswith(".txt")}
    kernels = [parse_kernel(k).name for text in sources.values() for k in KERNEL.findall(text)]
    executor = Interpreter(target, model.package.weights_of(NAME).data)
    executor.run([rows(2)], None, 1)
    assert executor.launched and set(executor.launched) <= set(kernels)
    assert target.objects.keys() == {name.removesuffix(".txt") for name in sources}


def test_sizes_that_do_not_fit_are_rejected(model: gw.Model) -> None:
    with pytest.raises(FeedError, match="x"):
        model(np.zeros((2, 5), np.float32))


def selected(build: Callable[[gw.GraphBuilder], Value]) -> tuple[Module, list[str]]:
    """A module behind the passes for the target, and the reasons of what these left."""
    b = gw.GraphBuilder()
    b.output("y", build(b))
    module = b.build()
    records = run_passes(module, *graph_passes(), *kernel_passes(AbacusTarget()))
    return module, [reason.why for record in records for reason in record.reasons]


def test_fusion_asks_the_target_what_it_can_express() -> None:
    _, reasons = selected(lambda b: b.exp(b.neg(b.input("x", np.float64, (4, 6)))))
    assert reasons.count("no code generator for f64") == 2
    _, reasons = selected(lambda b: b.reduce_sum(b.neg(b.input("x", np.float32, (4, 6))), axes=(0, 1)))
    assert "a reduction over 2 axes" in reasons
    module, reasons = selected(lambda b: b.softmax(b.input("x", np.float32, (4, 6))))
    assert "2 reductions in one kernel" in reasons
    assert sum(1 for _ in nodes_of(module, Fused)) == 2


def test_fusion_respects_the_limits_of_the_target() -> None:
    def chain(b: gw.GraphBuilder) -> Value:
        value = b.input("x", np.float32, (4, 6))
        for _ in range(20):
            value = b.neg(b.exp(value))
        return value

    module, reasons = selected(chain)
    assert "the kernel would have more than 6 nodes" in reasons
    assert max(len(region_of(node)) for _, node, _ in nodes_of(module, Fused)) == 6


@pytest.mark.parametrize("axis", [0, 1])
def test_schedules_use_its_memory_alone(axis: int) -> None:
    module, _ = selected(
        lambda b: b.neg(b.reduce_sum(b.exp(b.input("x", np.float32, (300, 200))), axes=(axis,)))
    )
    ((_, _, fused),) = nodes_of(module, Fused)
    assert fused.schedule is not None and not fused.schedule.keeps_rows
    assert fused.schedule.strategy is (Strategy.ROWS if axis else Strategy.LANES)


@pytest.mark.parametrize("shape", [(300, 20), (7, 3), (1, 1), (0, 5), (13, 17)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_over_either_axis(shape: tuple[int, int], axis: int) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", shape[1]))
    b.output("y", b.exp(b.neg(b.reduce_sum(b.mul(x, x), axes=(axis,)))))
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32) / 8
    want = np.exp(-(array.astype(np.float64) ** 2).sum(axis, keepdims=True))
    (given,) = gw.compile(b.build(), options=OPTIONS)(array)
    np.testing.assert_allclose(given, want, rtol=1e-5, atol=1e-6)


def test_nodes_that_need_library_kernels_run_on_the_host() -> None:
    module = layer()
    target = AbacusTarget()
    run_passes(module, *graph_passes(), *kernel_passes(target))
    steps = select_kernels(module, module.main, target).steps
    (product,) = [step.action for step in steps if isinstance(step.node.op, MatMul)]
    assert isinstance(product, Host)
    assert "no kernel of the library runs on abacus" in product.reason
    assert "there are no microkernels" in product.reason


def test_the_option_device_knows_it() -> None:
    with pytest.raises(OptionError, match="must be one of cpu, null, reference, abacus"):
        gw.compile(layer(), options={"device": "abakus"})


def test_no_code_of_graphwright_names_it() -> None:
    source = Path(gw.__file__).parent
    assert [path for path in source.rglob("*.py") if NAME in path.read_text(encoding="utf-8").lower()] == []
