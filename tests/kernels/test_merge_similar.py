"""Generated kernels that differ only in numbers are one kernel, which receives the numbers as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.compiler import code_generation
from graphwright.config import Options
from graphwright.ir.loops.nodes import Apply, Kernel, Loop, Store
from graphwright.ir.loops.rewrite import rewrite_operands
from graphwright.ir.loops.text import parse_kernel, print_kernel
from graphwright.ops.core.binary import Add, Div, Mul, Sub
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Relu
from graphwright.records import replace
from tests.isas import RUNNABLE

RANDOM = np.random.default_rng(11)
Array = np.ndarray[Any, Any]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """The kernels that are generated for the models of a test."""
    found: list[Kernel] = []
    real = code_generation.sources_of

    def recorded(generated: Any, target: Any, debug: bool = False) -> dict[str, str]:
        found.extend(kernel for kernel, _ in generated.kernels())
        return real(generated, target, debug)

    monkeypatch.setattr(code_generation, "sources_of", recorded)
    return found


def affine(
    inputs: int, numbers: Sequence[tuple[float, float]], shape: tuple[int, ...] = (3, 7)
) -> gw.GraphBuilder:
    """relu(x * a) + b of each input, with numbers (a, b) of its own."""
    builder = gw.GraphBuilder()
    for k, (factor, term) in zip(range(inputs), numbers, strict=True):
        scaled = builder(Mul(), builder.input(f"x{k}", "f32", shape), builder.constant(np.float32(factor)))
        builder.output(f"y{k}", builder(Add(), builder(Relu(), scaled), builder.constant(np.float32(term))))
    return builder


def test_three_kernels_become_one_with_the_numbers_as_arguments(kernels: list[Kernel]) -> None:
    numbers = [(0.3, 1.5), (0.7, -2.5), (-1.1, 1.5)]
    model = affine(3, numbers).compile()
    feeds = [RANDOM.normal(size=(3, 7)).astype(np.float32) for _ in numbers]
    for y, x, (factor, term) in zip(model(*feeds), feeds, numbers, strict=True):
        np.testing.assert_array_equal(y, np.maximum(x * np.float32(factor), 0) + np.float32(term))
    (kernel,) = kernels
    assert len(kernel.scalars) == 2


def test_two_kernels_stay_apart(kernels: list[Kernel]) -> None:
    affine(2, [(0.3, 1.5), (0.7, -2.5)]).compile()
    assert [kernel.scalars for kernel in kernels] == [(), ()]


def test_numbers_that_are_equal_in_all_kernels_stay_literals(kernels: list[Kernel]) -> None:
    affine(3, [(0.3, 1.5), (0.7, 1.5), (0.9, 1.5)]).compile()
    (kernel,) = kernels
    assert len(kernel.scalars) == 1 and "+ 1.5" in print_kernel(kernel)


def test_numbers_that_are_always_equal_are_one_argument(kernels: list[Kernel]) -> None:
    affine(3, [(0.3, 0.3), (0.7, 0.7), (0.9, 0.9)]).compile()
    (kernel,) = kernels
    assert len(kernel.scalars) == 1


@pytest.mark.parametrize("repeats", [1, 2])
def test_zeros_keep_their_signs(repeats: int) -> None:
    """x * 0.0 and x * -0.0 differ, in two kernels and in merged ones."""
    builder = gw.GraphBuilder()
    factors = [0.0, -0.0] * repeats
    for k, factor in enumerate(factors):
        x = builder.input(f"x{k}", "f32", (5,))
        builder.output(f"y{k}", builder(Mul(), x, builder.constant(np.float32(factor))))
    for y, factor in zip(builder.compile()(*[np.ones(5, np.float32)] * len(factors)), factors, strict=True):
        assert (np.signbit(y) == np.signbit(factor)).all()


@pytest.mark.parametrize("isa", RUNNABLE)
def test_epilogues_are_merged_across_sizes(kernels: list[Kernel], isa: str) -> None:
    """relu(x @ w) * a + b, with weights of different sizes: the tail is one kernel."""
    widths, builder = [20, 33, 17, 5], gw.GraphBuilder()
    x, wanted = (
        builder.input("x", "f32", (4, widths[0])),
        RANDOM.normal(size=(4, widths[0])).astype(np.float32),
    )
    feed = wanted
    for k, (rows, columns) in enumerate(pairwise(widths)):
        weight = RANDOM.normal(size=(rows, columns)).astype(np.float32)
        factor, term = np.float32(0.3 + k), np.float32(1.7 - k)
        product = builder(Relu(), builder(MatMul(), x, builder.constant(weight)))
        x = builder(Add(), builder(Mul(), product, builder.constant(factor)), builder.constant(term))
        wanted = np.maximum(wanted @ weight, 0) * factor + term
    builder.output("y", x)
    (y,) = builder.compile(options=Options(isa=isa))(feed)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-4)
    assert [len(kernel.scalars) for kernel in kernels] == [2]


LOOP = """<ir_version: 10, opset_import: ["" : 21]>
counted (float[5] a, float[5] b, float[5] c, int64 trips) => (float[5] x, float[5] y, float[5] z) {
    x, y, z = Loop (trips, , a, b, c) <body = step (int64 i, bool go, float[5] a, float[5] b, float[5] c)
        => (bool more, float[5] p, float[5] q, float[5] r)
        <float ka = {0.5}, float kb = {0.25}, float kc = {-0.75},
         float ta = {1}, float tb = {2}, float tc = {3}> {
        more = Identity(go)
        sa = Mul(a, ka)
        p = Add(sa, ta)
        sb = Mul(b, kb)
        q = Add(sb, tb)
        sc = Mul(c, kc)
        r = Add(sc, tc)
    }>
}"""


def test_kernels_inside_loops_receive_their_numbers(kernels: list[Kernel]) -> None:
    feeds = [RANDOM.normal(size=5).astype(np.float32) for _ in range(3)]
    results = gw.compile(onnx.parser.parse_model(LOOP))(*feeds, np.int64(4))
    for y, x, factor, term in zip(results, feeds, (0.5, 0.25, -0.75), (1, 2, 3), strict=True):
        for _ in range(4):
            x = x * np.float32(factor) + np.float32(term)
        np.testing.assert_allclose(y, x, rtol=1e-6)
    assert [len(kernel.scalars) for kernel in kernels] == [2]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(*[st.floats(width=32, allow_nan=False)] * 3), min_size=3, max_size=6),
    st.sampled_from([(), (0,), (1,), (17,), (2, 31)]),
)
def test_merged_kernels_give_the_bits_of_numpy(
    numbers: list[tuple[float, ...]], shape: tuple[int, ...]
) -> None:
    """(x - a) / b * c, with any floats: no two of these functions are one instruction."""
    builder = gw.GraphBuilder()
    for k, constants in enumerate(numbers):
        x = builder.input(f"x{k}", "f32", shape)
        for op, number in zip((Sub(), Div(), Mul()), constants, strict=True):
            x = builder(op, x, builder.constant(np.float32(number)))
        builder.output(f"y{k}", x)
    feeds = [RANDOM.normal(size=shape).astype(np.float32) for _ in numbers]
    with np.errstate(all="ignore"):
        for y, x, (a, b, c) in zip(builder.compile()(*feeds), feeds, numbers, strict=True):
            wanted = (x - np.float32(a)) / np.float32(b) * np.float32(c)
            np.testing.assert_array_equal(y, wanted)


def test_an_expression_with_several_uses_stays_one_object() -> None:
    kernel = parse_kernel("kernel k(x: f32[N], y: f32[N]) sizes(N) { vector i < N { y[i] = x[i] * 2.0 } }")
    loop, store = only_store(kernel)
    twice = replace(store, value=store.value + store.value)
    doubled = replace(kernel, body=(replace(loop, body=(twice,)),))
    _, rewritten = only_store(rewrite_operands(doubled, lambda _, operand: operand))
    assert isinstance(rewritten.value, Apply)
    left, right = rewritten.value.operands
    assert left is right


def only_store(kernel: Kernel) -> tuple[Loop, Store]:
    """The only loop of ``kernel``, and its only statement."""
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    (store,) = loop.body
    assert isinstance(store, Store)
    return loop, store
