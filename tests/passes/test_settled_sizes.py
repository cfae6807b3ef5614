"""Sizes that become known one after the other: each one is replaced by its final value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import parser

import graphwright as gw
from graphwright.frontends.onnx import load
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import Dim, floordiv, symbol
from graphwright.ir.text import print_module
from graphwright.ir.types import F32, TensorType, tensor
from graphwright.ops.core.unary import Relu
from graphwright.passes import fixed_sizes
from graphwright.passes.bind_sizes import bind_sizes
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.infer_shapes import refined_symbols
from graphwright.passes.manager import run_passes

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[B, S, 4] x, float[C, T, 4] m, float[C, 1, T, 1] mask) => (float[p, q, r] y)
    <int64[1] first = {0}, int64[1] second = {1}, int64[2] heads = {2, 2}, int64[1] rest = {-1}> {
    h = Add (x, m)
    sizes = Shape (h)
    b = Gather (sizes, first)
    s = Gather (sizes, second)
    split = Concat <axis = 0> (b, s, heads)
    apart = Reshape (x, split)
    turned = Transpose <perm = [0, 2, 1, 3]> (apart)
    masked = Add (turned, mask)
    found = Shape (masked)
    again = Gather (found, first)
    flat = Concat <axis = 0> (again, rest, heads)
    rows = Reshape (masked, flat)
    other = Concat <axis = 0> (b, s, rest)
    y = Reshape (rows, other)
}
"""


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("length", [1, 5])
def test_a_size_is_replaced_by_one_that_is_inferred_later(batch: int, length: int) -> None:
    """``masked`` has the size of ``h``, which equals that of ``x`` only by a guard."""
    model = gw.compile(parser.parse_model(MODEL))
    rng = np.random.default_rng(0)
    x, m = (rng.standard_normal((batch, length, 4), np.float32) for _ in range(2))
    mask = rng.standard_normal((batch, 1, length, 1), np.float32)
    (y,) = model(x, m, mask)
    turned = x.reshape(batch, length, 2, 2).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(y, (turned + mask).reshape(batch, length, -1))
    assert model.stats()["host_calls"] == 0


def test_a_size_is_not_replaced_by_itself() -> None:
    """It must not take the place of the size that settles the symbol: Nystromformer failed to run."""
    b, s, u = map(symbol, "BSu")
    known = TensorType(F32, (b, u))
    assert refined_symbols(known, TensorType(F32, (b, s))) == {"u": s}
    assert refined_symbols(known, TensorType(F32, (b, floordiv(32 * b * u, 32 * s)))) == {}


def test_all_sizes_are_substituted_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """One walk per size took most of the time of MViT, which settles 340."""
    n, p, q, r = map(symbol, "npqr")
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, n))])
    found = [b(Relu(), x) for _ in range(3)]
    for value, size in zip(found, (p, q, r), strict=True):
        value.type = tensor(F32, size)
    module.main.set_outputs(found, list("abc"))
    walks: list[Mapping[str, Dim]] = []

    def counted(module: Module, sizes: Mapping[str, Dim]) -> None:
        walks.append(sizes)
        bind_sizes(module, sizes)

    monkeypatch.setattr(fixed_sizes, "bind_sizes", counted)
    fixed_sizes.apply_substitutions(module, {"p": q + 1, "q": 2 * r, "r": n})
    assert [str(value.type) for value in found] == ["f32[2*n + 1]", "f32[2*n]", "f32[n]"]
    assert len([sizes for sizes in walks if sizes]) == 1


LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x, float[M, 4] y, int64 k) => (float[P, 4] z) <int64[1] rest = {-1}, bool yes = {1}> {
    sum = Add (x, y)
    shape = Shape (sum)
    flat = Reshape (sum, rest)
    back = Reshape (flat, shape)
    z = Loop (k, yes, back) <body = step (int64 i, bool go, float v) => (bool on, float w) {
        on = Identity (go)
        w = Relu (v)
    }>
}
"""


def test_a_size_that_a_loop_receives_is_replaced() -> None:
    """The number of rows of ``sum`` is a symbol until inference may assume that it is N."""
    module = load(parser.parse_model(LOOP))
    module.symbols.assume_nothing()
    run_passes(module, SHAPES)
    assert "Reshape[shape=(broadcast, 4)" in print_module(module)
    module.symbols.assume_of(None)
    run_passes(module, SHAPES)
    text = print_module(module)
    assert "Reshape[shape=(N, 4)" in text and "broadcast" not in text.partition("signature")[2]
