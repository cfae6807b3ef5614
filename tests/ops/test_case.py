"""Case and BucketIndex: the selected region, and inferred types that hold for every region."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphwright.errors import VerifyError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Graph, Module
from graphwright.ir.inference.infer import fact_of
from graphwright.ir.op import Fact, Inference, InferError, Op
from graphwright.ir.symbols import Expr, SymbolTable, symbol
from graphwright.ir.text import parse_module, print_module
from graphwright.ir.types import F32, I32, I64, TensorType, tensor
from graphwright.ir.verify import verify
from graphwright.ops.control.bucket_index import BucketIndex
from graphwright.ops.control.case import Case
from graphwright.ops.core.unary import Neg, Relu
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.manager import run_passes

Array = np.ndarray[Any, Any]
X = np.array([1.0, -2.0], np.float32)
RESULTS = (np.array([-1.0, 2.0]), np.array([1.0, 0.0]), X)
"""Of the regions of :func:`three`."""


def joined(*branches: TensorType) -> TensorType:
    at = Inference(SymbolTable(), "case")
    return Case(len(branches), 1).infer_regions(at, [[Fact(t)] for t in branches])[0].type


def region(module: Module, name: str, op: Op | None) -> Graph:
    graph = Graph(name)
    x = graph.add_input(tensor(F32, 2), "x")
    graph.set_outputs([x if op is None else Builder(module, graph)(op, x)])
    return graph


def three(index: Array | TensorType) -> Module:
    """-x, relu(x) or x, by an index that is an input or a constant."""
    module = Module()
    given = [("i", index)] if isinstance(index, TensorType) else []
    b, values = new_main_graph(module, [*given, ("x", tensor(F32, 2))])
    number = values[0] if isinstance(index, TensorType) else b.const(index)
    regions = [region(module, f"r{k}", op) for k, op in enumerate((Neg(), Relu(), None))]
    b.graph.set_outputs([b(Case(3, 1), number, values[-1], regions=regions)], ["y"])
    return module


@pytest.mark.parametrize(("index", "taken"), [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (2**40, 2)])
def test_the_index_chooses_and_one_outside_takes_the_last(index: int, taken: int) -> None:
    module = three(tensor(I64))
    verify(module)
    (y,) = evaluate_module(module, [np.array(index), X])
    np.testing.assert_array_equal(y, RESULTS[taken])
    assert Case(3, 1).selected_region(fact_of(np.array(index))) == taken


def test_the_text_reads_back() -> None:
    text = print_module(three(tensor(I32)))
    assert "Case[branches=3, results=1]" in text
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize("index", [0, 1, 7])
def test_a_constant_index_leaves_one_region(index: int) -> None:
    module = three(np.array(index))
    run_passes(module, DeadBranches())
    assert not any(node.regions for node in module.walk())
    (y,) = evaluate_module(module, [X])
    np.testing.assert_array_equal(y, RESULTS[min(index, 2)])


def test_outputs_have_the_sizes_that_all_branches_share() -> None:
    n = symbol("N")
    known = joined(tensor(F32, n, 3, 4), tensor(F32, n, 3, 4), tensor(F32, n, 3, 5))
    assert known.dims[:2] == (n, 3) and isinstance(known.dims[2], Expr)
    assert joined(tensor(F32, 2), tensor(F32, 2), tensor(F32, 2, 1)) == TensorType(F32, None)
    assert joined(tensor(F32, 2)) == tensor(F32, 2)


def test_regions_that_do_not_fit_are_rejected() -> None:
    at = Inference(SymbolTable(), "case")
    with pytest.raises(InferError, match="f32 in one branch and i64 in the other"):
        joined(tensor(F32, 2), tensor(F32, 2), tensor(I64, 2))
    with pytest.raises(InferError, match="1 and 0 and 1 outputs"):
        Case(3, 1).infer_regions(at, [[Fact(tensor(F32))], [], [Fact(tensor(F32))]])
    with pytest.raises(InferError, match="1 regions for 3 branches"):
        Case(3, 1).infer_regions(at, [[Fact(tensor(F32))]])
    with pytest.raises(InferError, match="one branch"):
        Case(0, 1).verify()


@pytest.mark.parametrize("index", [tensor(F32), tensor(I64, 2)])
def test_an_index_that_is_no_whole_number_is_rejected(index: TensorType) -> None:
    with pytest.raises(VerifyError, match="must be an i32 or i64 scalar"):
        verify(three(index))


@pytest.mark.parametrize(
    ("between", "sizes", "index"),
    [
        ("error", (4, 8), 2),
        ("pad", (4, 8), 2),
        ("pad", (1, 4), 2),  # (4, 8) has fewer elements than (16, 16)
        ("pad", (5, 5), 3),
        ("dynamic", (1, 3), 0),
        ("dynamic", (5, 5), 4),
    ],
)
def test_the_bucket_index_of_sizes(between: str, sizes: tuple[int, ...], index: int) -> None:
    op = BucketIndex(((1, 3), (4, 3), (4, 8), (16, 16)), between)
    assert op.reference(np.array(sizes)) == index


@pytest.mark.parametrize(("between", "sizes"), [("error", (2, 3)), ("pad", (17, 1))])
def test_sizes_of_no_gear_are_a_fault(between: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no bucket has the sizes"):
        BucketIndex(((1, 3), (4, 3), (16, 16)), between).reference(np.array(sizes))
