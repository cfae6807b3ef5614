"""Case inside programs: any number of branches, in loops as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright import ops
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.op import op_class
from graphwright.ir.types import BOOL, F32, I32, I64, DType, TensorType, tensor
from graphwright.low_ir.tasks import TaskKind
from graphwright.ops.control.case import Case
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import ITERATION, Loop

from .loops import program_of, results

ops.load()

SIZE = 33


def region(module: Module, name: str, types: Sequence[TensorType], make: Callable[..., Any]) -> Graph:
    graph = Graph(name)
    values = [graph.add_input(type) for type in types]
    made = make(Builder(module, graph), *values)
    graph.set_outputs([made] if isinstance(made, Value) else made)
    return graph


def scaled(by: int) -> Callable[..., Value]:
    def make(b: Builder, x: Value) -> Value:
        made: Value = b(op_class("Mul")(), x, b.const(np.float32(by)))
        return made

    return make


def model_of(module: Module, b: Builder, y: Value) -> Any:
    b.graph.set_outputs([y], ["y"])
    return gw.compile(module)


@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_index_chooses_a_branch(dtype: DType, count: int) -> None:
    module = Module()
    b, (k, x) = new_main_graph(module, [("k", tensor(dtype)), ("x", tensor(F32, SIZE))])
    regions = [region(module, f"case{n}", [x.type], scaled(n + 2)) for n in range(count)]
    made = model_of(module, b, b(Case(count, 1), k, x, regions=regions))
    array = np.arange(SIZE, dtype=np.float32)
    for index in (*range(count), -1, count, 2**31 - 1, -(2**31)):
        (y,) = results(made, {"k": np.array(index, dtype.numpy), "x": array})
        chosen = index if 0 <= index < count else count - 1
        np.testing.assert_array_equal(y, array * (chosen + 2))
    (task,) = (t for t in program_of(made).tasks if t.kind is TaskKind.IF)
    assert len(task.blocks) == count


def test_a_bool_selects_one_of_two_branches() -> None:
    module = Module()
    b, (c, x) = new_main_graph(module, [("c", tensor(BOOL)), ("x", tensor(F32, SIZE))])
    regions = [region(module, f"branch{n}", [x.type], scaled(n + 2)) for n in range(2)]
    made = model_of(module, b, b(If(1), c, x, regions=regions))
    array = np.arange(SIZE, dtype=np.float32)
    for holds in (True, False):
        (y,) = results(made, {"c": np.array(holds), "x": array})
        np.testing.assert_array_equal(y, array * (2 if holds else 3))


def test_each_run_of_a_loop_takes_another_branch() -> None:
    module = Module()
    b, (n, x) = new_main_graph(module, [("n", ITERATION), ("x", tensor(F32, SIZE))])

    def body(b: Builder, number: Value, h: Value) -> Value:
        regions = [region(module, f"case{k}", [h.type], scaled(k + 1)) for k in range(3)]
        made: Value = b(Case(3, 1), number, h, regions=regions)
        return made

    loop = b(Loop(1, counted=True), n, x, regions=[region(module, "body", [ITERATION, x.type], body)])
    made = model_of(module, b, loop)
    array = np.arange(SIZE, dtype=np.float32)
    for trips, factor in ((0, 1), (1, 1), (2, 2), (3, 6), (5, 54)):
        (y,) = results(made, {"n": np.array(trips), "x": array})
        np.testing.assert_array_equal(y, array * factor)
