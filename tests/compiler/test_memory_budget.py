"""The option ``memory_budget``: kept by another order of tasks, or refused with the numbers."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import ModelError, OptionError
from graphwright.ir.clone import clone_module
from graphwright.memory.checker.check import check_plan
from graphwright.runtime.devices.cpu import Cpu
from tests.onnx_models import onnx_model
from tests.random_graphs.generate import case

Array = np.ndarray[Any, Any]
ROWS = 64


def fans(rows: int | str = ROWS, count: int = 8) -> gw.GraphBuilder:
    """The sum of ``(x @ w_k) @ v_k``, whose wide products all come before the narrow ones."""
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "f32", (rows, 16))
    wide = [b.matmul(x, rng.standard_normal((16, 512), np.float32)) for _ in range(count)]
    narrow = [b.matmul(h, rng.standard_normal((512, 8), np.float32)) for h in wide]
    total = narrow[0]
    for each in narrow[1:]:
        total = b.add(total, each)
    b.output("y", total)
    return b


def compiled(rows: int | str = ROWS, budget: int = 0, **options: Any) -> gw.Model:
    given = Options(threads=2, memory_budget=budget, verify=True, **options)
    shapes = {"x": (rows, 16)} if isinstance(rows, str) else None
    return fans("N" if shapes else rows).compile(given, shapes=shapes)


def needed(model: gw.Model, rows: int = ROWS) -> int:
    used = model.memory([rows, 16])
    return used.weights + used.packed + used.arena


def test_a_budget_that_is_kept_changes_nothing() -> None:
    free = compiled()
    kept = compiled(budget=needed(free))
    assert kept.memory().programs == free.memory().programs


def test_a_budget_that_is_too_small_is_rejected_with_the_numbers() -> None:
    least = needed(compiled())
    with pytest.raises(ModelError) as caught:
        compiled(budget=least // 2)
    (fault,) = caught.value.diagnostics
    assert fault.code == "memory-budget"
    assert f"more than the budget of {least / 2**11:.1f} KiB ({least // 2} bytes)" in fault.message
    found = re.search(r"a budget of at least (\d+) bytes", fault.hint)
    assert found is not None and "live at the peak: " in fault.hint and "threads=1" in fault.hint
    assert needed(compiled(budget=int(found[1]))) == int(found[1]), "what is said to be enough is enough"
    with pytest.raises(ModelError):
        compiled(budget=int(found[1]) - 1)


def test_a_budget_with_dynamic_sizes_holds_at_the_largest() -> None:
    least = needed(compiled("N=1..64"))
    kept = compiled("N=1..64", budget=least)
    for rows in (1, 17, 63, 64):
        assert needed(kept, rows) <= least
    with pytest.raises(ModelError, match="more than the budget"):
        compiled("N=1..128", budget=least)
    with pytest.raises(ModelError, match=r"size N \(axis 0 of 'x'\) has no upper bound") as caught:
        compiled("N", budget=least)
    assert "shapes={'x': ['N=1..16', " in caught.value.diagnostics[0].hint


def test_a_size_that_values_decide_has_no_budget() -> None:
    nodes = [helper.make_node("Range", ["zero", "n", "one"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    constants = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)}
    specs = {"n": (TensorProto.INT64, [])}
    proto = onnx_model(nodes, specs, {"y": (TensorProto.INT64, ["K"])}, constants)
    with pytest.raises(ModelError, match="size range depends on the values of a run") as caught:
        gw.compile(proto, options={"memory_budget": 1 << 20})
    assert caught.value.diagnostics[0].hint == "drop memory_budget"


def test_a_shape_that_values_decide_has_no_budget() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    specs = {"x": (TensorProto.FLOAT, ["N", 4]), "s": (TensorProto.INT64, [2])}
    proto = onnx_model(nodes, specs, {"y": (TensorProto.FLOAT, ["A", "B"])}, {})
    with pytest.raises(ModelError, match=r"'r'.* depends on the values of a run") as caught:
        gw.compile(proto, shapes={"x": ("N=1..16", 4)}, options={"memory_budget": 1 << 20})
    hints = {d.hint for d in caught.value.diagnostics}
    assert hints == {"drop memory_budget, or give ranges of the inputs' sizes if these bound it"}


def test_the_plan_within_a_budget_is_checked_and_the_bits_stay() -> None:
    free = compiled()
    found = None
    for budget in range(needed(free) - 1, needed(free) // 2, -50_000):
        try:
            found = compiled(budget=budget)
        except ModelError:
            break
    x = np.random.default_rng(1).standard_normal((ROWS, 16), np.float32)
    for model in (free, found or free):
        assert isinstance(model.executor, Cpu)
        plan = model.executor.plan([(ROWS, 16)], 2)
        assert check_plan(model.executor.task_graph, plan, 2) == []
        assert model(x)[0].tobytes() == free(x)[0].tobytes()


def test_gears_limit_the_sizes_that_are_padded_to_them() -> None:
    b = gw.GraphBuilder()
    b.output("y", b.exp(b.input("x", "f32", ("N", 8))))
    gears = gw.Gears({"x": [(2, 8), (16, 8)]}, between="pad")
    model = b.compile(gears=gears, options={"memory_budget": "1MiB"})
    np.testing.assert_allclose(model(np.ones((5, 8), np.float32))[0], np.full((5, 8), np.e), rtol=1e-6)


@pytest.mark.parametrize("rows", [6, "N=1..6"])
def test_a_data_dependent_size_is_at_most_the_buffer_of_its_elements(rows: int | str) -> None:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N", 4))
    positive = b.compress(b.reshape(x, (-1,)), b.reshape(b.greater(x, 0.0), (-1,)), axis=0)
    b.output("y", b.exp(positive))
    model = b.compile(shapes={"x": (rows, 4)}, options={"memory_budget": "1MiB"})
    fed = np.random.default_rng(2).standard_normal((6, 4), np.float32)
    np.testing.assert_allclose(model(fed)[0], np.exp(fed[fed > 0]), rtol=1e-6)


def held_back(budget: int = 0) -> gw.Model:
    """A softmax that is read at the start and at the end, with wide products between."""
    b, rng = gw.GraphBuilder(), np.random.default_rng(0)
    x = b.input("x", "f32", (256, 64))
    soft = b.softmax(x, axis=-1)
    h = b.matmul(soft, rng.standard_normal((64, 64), np.float32))
    for _ in range(2):
        wide = b.matmul(h, rng.standard_normal((64, 512), np.float32))
        h = b.matmul(b.softmax(wide, axis=-1), rng.standard_normal((512, 64), np.float32))
    b.output("y", b.matmul(b.add(b.softmax(h, axis=-1), soft), rng.standard_normal((64, 8), np.float32)))
    return b.compile(Options(threads=1, memory_budget=budget, verify=True))


def test_a_cheap_value_is_computed_again_rather_than_kept() -> None:
    """The softmax of 64 KiB is the only value that is live during the wide matrix multiplications."""
    free = held_back()
    used = free.memory()
    kept = held_back(used.weights + used.packed + used.arena - 1)
    line, before = kept.memory().programs[0], used.programs[0]
    assert line.arena <= before.arena - 64 * 256 * 4 + 16 * 1024
    assert line.timeline is not None and before.timeline is not None
    assert len(line.timeline.tasks) == len(before.timeline.tasks) + 1
    x = np.random.default_rng(1).standard_normal((256, 64), np.float32)
    assert kept(x)[0].tobytes() == free(x)[0].tobytes()
    assert isinstance(kept.executor, Cpu)
    plan = kept.executor.plan([(256, 64)], 1)
    assert check_plan(kept.executor.task_graph, plan, 1) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_keep_their_budget_and_their_bits_or_are_rejected(seed: int, tmp_path: Path) -> None:
    made = case(Random(seed), symbols=False)
    (sizes, *_) = made.sizes
    feeds = made.feeds(sizes)

    def model(budget: int) -> gw.Model:
        options = Options(cache_dir=tmp_path, threads=1, memory_budget=budget, verify=True)
        return gw.compile(clone_module(made.module), options=options)

    free = model(0)
    used, want = free.memory(), free(*feeds)
    budget = used.weights + used.packed + used.arena - 64
    if budget <= 0:
        return
    try:
        tight = model(budget)
    except ModelError as error:
        assert error.diagnostics[0].code == "memory-budget"
        return
    found = tight.memory()
    assert found.weights + found.packed + found.arena <= budget
    for a, b in zip(want, tight(*feeds), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("67108864", 2**26),
        ("64MiB", 2**26),
        ("64 MiB", 2**26),
        ("1.5GiB", 3 * 2**29),
        ("7KiB", 7168),
    ],
)
def test_bytes_are_read_with_units(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_MEMORY_BUDGET", text)
    assert Options.from_environment().memory_budget == size
    assert Options.of({"memory_budget": text}).memory_budget == size


@pytest.mark.parametrize("text", ["-1", "64MB", "MiB", "1e6", "0x10", "\u0661"])
def test_invalid_numbers_of_bytes_are_rejected(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_MEMORY_BUDGET", text)
    with pytest.raises(OptionError, match="must be a number of bytes"):
        Options.from_environment()
