"""Shape programs: native code computes the values of the expressions, and errors name the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright import _native
from graphwright.errors import FeedError, ModelError
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Graph, Module
from graphwright.ir.symbols import Dim, Range, SymbolTable, ceildiv, evaluate, maximum, minimum, symbol
from graphwright.ir.types import F32, U8, TensorType, tensor
from graphwright.low_ir.tasks import Binding, Block, Code, TaskGraph
from graphwright.lower.shape_program import ShapeProgramBuilder
from graphwright.ops.core.binary import Add
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Relu
from tests.low_ir.words import encode

NAMES = ("N", "M", "K")
BINARY: tuple[Callable[[Dim, Dim], Dim], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    minimum,
    maximum,
    lambda a, b: a // maximum(b, 1),
    lambda a, b: a % maximum(b, 1),
    lambda a, b: ceildiv(a, maximum(b, 1)),
)


def extend(children: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    return st.tuples(st.sampled_from(BINARY), children, children).map(lambda t: t[0](t[1], t[2]))


leaves: st.SearchStrategy[Dim] = st.one_of(st.integers(-5, 9), st.sampled_from(NAMES).map(symbol))
dims = st.recursive(leaves, extend, max_leaves=8)


def program_of(wanted: Sequence[Dim], table: SymbolTable) -> tuple[TaskGraph, list[int]]:
    """A program without tasks over an input [N, M, K], and the registers of ``wanted``."""
    graph = Graph("main")
    graph.add_input(TensorType(U8, tuple(map(symbol, NAMES))), "x")
    builder = ShapeProgramBuilder()
    builder.bind_inputs(graph.inputs, table)
    registers = [builder.register(dim) for dim in wanted]
    port = Binding("x", U8, tuple(builder.register(symbol(name)) for name in NAMES))
    program = TaskGraph((port,), (), tuple(builder.instructions), (), (), (Block(0, 0),), ())
    return program, registers


def numbers(program: TaskGraph, sizes: Sequence[int]) -> list[int]:
    """All registers for an input of these sizes, from native code."""
    plan = _native.Program(encode(program), b"", []).plan([list(sizes)])
    return list(plan["registers"])


@settings(max_examples=200, deadline=None)
@given(st.lists(dims, min_size=1, max_size=4), st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_native_shape_programs_evaluate_the_expressions(wanted: list[Dim], sizes: list[int]) -> None:
    program, registers = program_of(wanted, SymbolTable())
    found = numbers(program, sizes)
    meant = dict(zip(NAMES, sizes, strict=True))
    assert [found[r] for r in registers] == [evaluate(dim, meant) for dim in wanted]


def test_equal_expressions_share_a_register() -> None:
    n, m = symbol("N"), symbol("M")
    program, registers = program_of([n * m + 1, 1 + m * n, n * m], SymbolTable())
    assert registers[0] == registers[1]
    assert sum(i.code is Code.MUL for i in program.shape) == 1


@pytest.mark.parametrize("power", [2, 3])
def test_overflow_is_an_error(power: int) -> None:
    wanted: Dim = 2**40
    for _ in range(power):
        wanted = wanted * symbol("N")
    program, _ = program_of([wanted], SymbolTable())
    assert numbers(program, [1, 1, 1])
    with pytest.raises(_native.PlanError):
        numbers(program, [2**13, 1, 1])


def table_of(*, low: int = 0, high: int | None = None, multiple: int = 1) -> SymbolTable:
    table = SymbolTable()
    table.ranges["N"] = Range(low, high)
    if multiple > 1:
        table.multiples["N"] = multiple
    return table


@pytest.mark.parametrize(
    ("table", "size", "note"),
    [
        (table_of(low=3), 2, "at least 3"),
        (table_of(high=8), 9, "0 to 8"),
        (table_of(multiple=4), 6, "a multiple of 4"),
    ],
)
def test_bounds_of_symbols_are_checked(table: SymbolTable, size: int, note: str) -> None:
    program, _ = program_of([], table)
    assert numbers(program, [4, 1, 1])
    with pytest.raises(_native.CheckError) as caught:
        numbers(program, [size, 1, 1])
    assert program.shape[caught.value.args[0]].note == f"axis 0 of 'x' must be {note}"


def test_a_data_dependent_size_is_rejected() -> None:
    with pytest.raises(ModelError, match="the size unknown depends on the elements of a tensor"):
        program_of([symbol("unknown") + 1], SymbolTable())


def test_maps_that_fit_at_some_heights_alone() -> None:
    """A text detector adds 2 * ceil(H/32) rows to ceil(H/16) rows."""
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, symbol("H"), 3))])
    coarse, fine = (b(Slice((0,), (2**63 - 1,), (0,), (step,)), x) for step in (32, 16))
    b.sources = ("neck/add",)
    module.main.set_outputs([b(Add(), b(Concat(0), coarse, coarse), fine)], ["y"])
    model = gw.compile(module)
    assert model(np.ones((320, 3), np.float32))[0].shape == (20, 3)
    with pytest.raises(FeedError) as caught:
        model(np.ones((330, 3), np.float32))
    message = str(caught.value)
    assert "neck/add" in message and "22 and 21 differ" in message
    assert model(np.ones((16, 3), np.float32))[0].shape == (2, 3)  # one row is broadcast to two


def test_inputs_that_share_a_symbol_must_agree() -> None:
    module = Module()
    n = symbol("N")
    b, (x, y) = new_main_graph(module, [("x", tensor(F32, n)), ("y", tensor(F32, 2 * n))])
    module.main.set_outputs([b(Relu(), x), b(Relu(), y)], ["a", "b"])
    model = gw.compile(module)
    assert [r.shape for r in model(np.ones(3, np.float32), np.ones(6, np.float32))] == [(3,), (6,)]
    with pytest.raises(FeedError, match="axis 0 of 'y'"):
        model(np.ones(3, np.float32), np.ones(5, np.float32))
