"""Matrix products against sums written out, and the graphs that Gemm and Einsum become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.inference.infer import infer_outputs
from graphwright.ir.op import Fact, Trait
from graphwright.ir.symbols import SymbolTable, symbol
from graphwright.ir.types import F32, tensor, type_of
from graphwright.ops.core.einsum import Einsum
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul

from .support import run_graph, run_reference

SIZE = st.sampled_from([0, 1, 2, 3, 5, 7])


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape)


def product(a: Any, b: Any) -> Any:
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


@settings(deadline=None, max_examples=60)
@given(SIZE, SIZE, SIZE, st.sampled_from([((), ()), ((2,), ()), ((2, 1), (3,)), ((1, 3), (2, 3))]))
def test_matmul_sums_products(m: int, k: int, n: int, batch: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = normal(*batch[0], m, k), normal(*batch[1], k, n)
    (actual,) = run_reference(MatMul(), [a, b])
    (fact,) = infer_outputs(MatMul(), [Fact(type_of(a)), Fact(type_of(b))], SymbolTable(), "node")
    assert fact.type == type_of(actual)
    np.testing.assert_allclose(actual, product(a, b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [((4,), (4,), ()), ((4,), (4, 3), (3,)), ((3, 4), (4,), (3,)), ((2, 3, 4), (4,), (2, 3))],
)
def test_vectors_lose_their_axis(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> None:
    (fact,) = infer_outputs(MatMul(), [Fact(tensor(F32, *a)), Fact(tensor(F32, *b))], SymbolTable(), "node")
    assert fact.type.shape == shape
    assert run_reference(MatMul(), [normal(*a), normal(*b)])[0].shape == shape


def test_inner_sizes_that_may_differ_become_a_constraint() -> None:
    symbols = SymbolTable()
    n, k = symbol("N"), symbol("K")
    infer_outputs(MatMul(), [Fact(tensor(F32, 3, n)), Fact(tensor(F32, k, 2))], symbols, "proj")
    assert [(c.relation, c.left, c.right, c.node) for c in symbols.constraints] == [("==", n, k, "proj")]


def test_f16_products_are_summed_in_f32() -> None:
    a, b = np.ones((1, 5000), np.float16), np.ones((5000, 1), np.float16)
    assert run_reference(MatMul(), [a, b])[0].tolist() == [[5000.0]]


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("c", [None, (), (5,), (3, 1), (3, 5)])
def test_gemm_scales_the_product_and_adds_c(trans_a: bool, trans_b: bool, c: tuple[int, ...] | None) -> None:
    a, b = normal(*((4, 3) if trans_a else (3, 4))), normal(*((5, 4) if trans_b else (4, 5)))
    inputs = [a, b] if c is None else [a, b, normal(*c)]
    expected = 0.5 * product(a.T if trans_a else a, b.T if trans_b else b) + (
        0 if c is None else 2 * inputs[2]
    )
    np.testing.assert_allclose(
        run_reference(Gemm(0.5, 2.0, trans_a, trans_b), inputs)[0], expected, rtol=1e-9
    )


def test_a_plain_gemm_is_one_product_and_one_sum() -> None:
    module = Module()
    types = [("a", tensor(F32, 3, 4)), ("b", tensor(F32, 4, 5)), ("c", tensor(F32, 5))]
    b, values = new_main_graph(module, types)
    Gemm().decompose(b, *values)
    assert [Trait.CONTRACTION in n.op.traits for n in b.graph] == [True, False]


EQUATIONS = [
    "ij,jk->ik",
    "bij,bkj->bik",
    "bhid,bhjd->bhij",
    "ij,kj->ikj",
    "abcd,cdef->abef",
    "i,j->ij",
    "ij,jk,kl->il",
    "ab,bc->",
]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(EQUATIONS), st.data())
def test_einsum_as_matrix_products(equation: str, data: Any) -> None:
    terms = equation.split("->")[0].split(",")
    sizes = {c: data.draw(st.sampled_from([2, 3, 5]), label=c) for c in sorted(set("".join(terms)))}
    arrays = [normal(*(sizes[c] for c in term)).astype(np.float64) for term in terms]
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", type_of(a)) for k, a in enumerate(arrays)])
    made = Einsum(equation).decompose(b, *values)
    assert made is not None
    b.graph.set_outputs([made])
    (actual,) = run_graph(module, b.graph, dict(zip(values, arrays, strict=True)), {})
    np.testing.assert_allclose(actual, np.einsum(equation, *arrays), rtol=1e-9, atol=1e-9)
