"""Models with nodes on several devices: a program for each, and values that cross between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.compiler.recompile import source_module
from graphwright.errors import ModelError
from graphwright.executable.nodes import HostProgram, Program
from graphwright.ir.graph import Module
from tests.targets.abacus.executor import NAME

Array = np.ndarray[Any, Any]
IN, OUT = (np.random.default_rng(seed).standard_normal((6, 6)).astype(np.float32) for seed in (1, 2))


def crossing() -> Module:
    """A product on the CPU, what is behind it on the other device, and a product on the CPU again."""
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 6))
    hidden = b.matmul(x, IN)
    with b.on(NAME):
        kept = b.tanh(b.add(hidden, IN[0]))
        total = b.reduce_sum(kept, axes=(1,))
    b.output("y", b.add(b.matmul(kept, OUT), total))
    return b.build()


def expected(x: Array) -> Array:
    kept = np.tanh(x.astype(np.float64) @ IN + IN[0])
    return kept @ OUT + kept.sum(axis=1, keepdims=True)


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 6)).astype(np.float32)


def devices(model: gw.Model) -> list[str]:
    """The devices of the programs, in the order of their runs."""
    executable = model.entry.executable
    assert isinstance(executable, HostProgram)
    callees = [call.callee for call in executable.calls()]
    return [callee.device for callee in callees if isinstance(callee, Program)]


@pytest.fixture(scope="module")
def model() -> gw.Model:
    return gw.compile(crossing(), options={"verify": True})


@settings(max_examples=8, deadline=None)
@given(count=st.integers(0, 13))
def test_values_cross_between_devices(model: gw.Model, count: int) -> None:
    x = rows(count)
    np.testing.assert_allclose(*model(x), expected(x), rtol=1e-4, atol=1e-5)


def test_each_device_has_its_program(model: gw.Model) -> None:
    assert devices(model) == ["", NAME, ""]
    held = [sorted(program.targets) for program in model.package.programs()]
    assert held[1] == [NAME] and held[0] == held[2] != [NAME]


def test_the_option_device_may_be_the_other_device() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 6))
    with b.on("cpu"):
        y = b.matmul(x, IN)
    b.output("y", b.tanh(y))
    model = b.compile(options={"device": NAME})
    assert devices(model) == ["cpu", ""]
    np.testing.assert_allclose(
        *model(rows(3)), np.tanh(rows(3).astype(np.float64) @ IN), rtol=1e-4, atol=1e-5
    )


def test_all_nodes_on_one_device() -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 6))
    with b.on(NAME):
        b.output("y", b.tanh(b.tanh(x)))
    model = b.compile()
    assert devices(model) == [NAME]
    np.testing.assert_allclose(*model(rows(2)), np.tanh(np.tanh(rows(2))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trust", [True, False])
def test_a_file_stores_the_devices_of_nodes(model: gw.Model, trust: bool, tmp_path: Path) -> None:
    model.save(tmp_path / "m.om")
    options = {"key_dir": tmp_path / "other"}
    loaded = gw.load(tmp_path / "m.om", trust=trust, options=options)
    assert devices(loaded) == ["", NAME, ""]
    np.testing.assert_allclose(*loaded(rows(4)), expected(rows(4)), rtol=1e-4, atol=1e-5)


def test_the_emitted_source_names_the_nodes(model: gw.Model) -> None:
    found = {value.device for node in source_module(model.package).walk() for value in node.outputs}
    assert NAME in found


def test_the_reference_runs_all_of_them() -> None:
    model = gw.compile(crossing(), options={"device": "reference"})
    np.testing.assert_allclose(*model(rows(4)), expected(rows(4)), rtol=1e-4, atol=1e-5)


def test_states_are_updated_on_another_device() -> None:
    b = gw.GraphBuilder()
    x, count = b.input("x", "f32", (6,)), b.state("count", "f32", (6,))
    with b.on(NAME):
        b.update(count, b.add(count, x))
    b.output("before", b.mul(count, np.float32(2)))
    model = b.compile()
    ones = np.ones(6, np.float32)
    assert [float(model(ones)[0][0]) for _ in range(3)] == [0, 2, 4]
    np.testing.assert_array_equal(model.states["count"], 3)


def test_invalid_devices_for_nodes_are_named() -> None:
    b = gw.GraphBuilder()
    with pytest.raises(ModelError, match=r"cpu.*abacus"), b.on("gpu"):
        pass
    with pytest.raises(ModelError, match="can only run whole models"), b.on("reference"):
        pass
    x = b.input("x", "f32", (3,))
    assert b.relu(x).device == ""
