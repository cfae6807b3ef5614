"""Counts the bytes that a run reads and writes, without weights: op by op, fused, and by contractions only.

    python -m benchmarks.fusion.traffic                      # writes benchmarks/results/fusion/traffic.json
    python -m benchmarks.fusion.traffic decoder_2048 bert    # those with one of these in their names

Nothing is run: bytes are counted from compiled graphs, with fusion and with none (``opt_level`` 0). A
contraction is a product, a convolution, an attention or a recurrent layer: what it reads and writes would be
left if all else were fused. ``decoder_N`` is one layer of a decoder with seven billion weights on N tokens,
in the form in which exporters write it (hidden size 3584, 28 query heads, 4 heads of keys and values, 18944
features in the MLP). The others are models of ``benchmarks.models``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper, parser

import graphwright as gw
from benchmarks import RESULTS
from benchmarks.models import MODELS
from benchmarks.records import write_rows
from graphwright.compiler.recompile import unpacked_module
from graphwright.cost.nominal import nominal
from graphwright.fusion.traffic import Traffic, total_of, traffic_of
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.records import dataclass
from graphwright.tools.measuring.engines import OURS

FILE: Final = RESULTS / "fusion" / "traffic.json"
TOKENS: Final = (512, 2048)
HIDDEN, FEATURES, HEADS, KEY_HEADS, HEAD = 3584, 18944, 28, 4, 128
KERNELS_OF_THEIR_OWN: Final = ("Attention", "GroupQueryAttention", "LSTM", "GRU", "RNN")


def decoder_layer(tokens: int) -> onnx.ModelProto:
    """One layer: norm, grouped attention with rotated positions and a causal mask, norm, gated MLP."""
    half, group = HEAD // 2, HEADS // KEY_HEADS
    weights = {
        "wn": (HIDDEN,), "wm": (HIDDEN,), "wq": (HIDDEN, HIDDEN), "wo": (HIDDEN, HIDDEN),
        "wk": (HIDDEN, KEY_HEADS * HEAD), "wv": (HIDDEN, KEY_HEADS * HEAD),
        "wg": (HIDDEN, FEATURES), "wu": (HIDDEN, FEATURES), "wd": (FEATURES, HIDDEN),
    }  # fmt: skip
    angles, scores = f"float[1,1,{tokens},{HEAD}]", f"float[1,1,{tokens},{tokens}]"
    state = f"float[1,{tokens},{HIDDEN}]"
    model: onnx.ModelProto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        layer ({state} x, {angles} cos, {angles} sin, {scores} mask) => ({state} y)
        <float two = {{2}}, float tiny = {{1e-6}}, float scale = {{{HEAD**-0.5}}}, int64[1] last = {{-1}},
         int64[1] axis2 = {{2}}, int64[1] axis3 = {{3}}, int64[1] zero = {{0}}, int64[1] half = {{{half}}},
         int64[1] end = {{{HEAD}}}, int64[4] heads = {{1, {tokens}, {HEADS}, {HEAD}}},
         int64[4] key_heads = {{1, {tokens}, {KEY_HEADS}, {HEAD}}},
         int64[5] groups = {{1, {KEY_HEADS}, {group}, {tokens}, {HEAD}}},
         int64[4] repeated = {{1, {HEADS}, {tokens}, {HEAD}}}, int64[3] joined = {{1, {tokens}, {HIDDEN}}}>
        {{
            {_norm("x", "wn", "n")}
            {_heads("n", "q", "heads")} {_heads("n", "k", "key_heads")} {_heads("n", "v", "key_heads")}
            {_rotated("q")} {_rotated("k")} {_repeated("k_rotated", "keys")} {_repeated("v", "values")}
            transposed = Transpose<perm = [0, 1, 3, 2]>(keys)
            products = MatMul(q_rotated, transposed) scaled = Mul(products, scale)
            masked = Add(scaled, mask) weights = Softmax<axis = -1>(masked) context = MatMul(weights, values)
            context_rows = Transpose<perm = [0, 2, 1, 3]>(context) all_heads = Reshape(context_rows, joined)
            projected = MatMul(all_heads, wo) r = Add(x, projected)
            {_norm("r", "wm", "m")}
            gate = MatMul(m, wg) up = MatMul(m, wu) sigmoid = Sigmoid(gate) silu = Mul(gate, sigmoid)
            gated = Mul(silu, up) down = MatMul(gated, wd) y = Add(r, down)
        }}"""
    )
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(shape[0]))
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _norm(x: str, weight: str, to: str) -> str:
    return f"""{to}_squares = Pow({x}, two) {to}_mean = ReduceMean<keepdims = 1>({to}_squares, last)
        {to}_sum = Add({to}_mean, tiny) {to}_root = Sqrt({to}_sum) {to}_factor = Reciprocal({to}_root)
        {to}_normal = Mul({x}, {to}_factor) {to} = Mul({to}_normal, {weight})"""


def _heads(x: str, to: str, shape: str) -> str:
    return f"""{to}_flat = MatMul({x}, w{to}) {to}_rows = Reshape({to}_flat, {shape})
        {to} = Transpose<perm = [0, 2, 1, 3]>({to}_rows)"""


def _rotated(x: str) -> str:
    return f"""{x}_first = Slice({x}, zero, half, axis3) {x}_second = Slice({x}, half, end, axis3)
        {x}_negated = Neg({x}_second) {x}_turned = Concat<axis = -1>({x}_negated, {x}_first)
        {x}_cos = Mul({x}, cos) {x}_sin = Mul({x}_turned, sin) {x}_rotated = Add({x}_cos, {x}_sin)"""


def _repeated(x: str, to: str) -> str:
    return f"""{to}_axis = Unsqueeze({x}, axis2) {to}_groups = Expand({to}_axis, groups)
        {to} = Reshape({to}_groups, repeated)"""


@dataclass(frozen=True)
class Row:
    """The bytes that one run of a model reads and writes."""

    model: str
    apart: int
    fused: int
    contractions: int

    def __str__(self) -> str:
        sizes = " | ".join(f"{each / 1e6:.1f}" for each in (self.apart, self.fused, self.contractions))
        less, ratio = 1 - self.fused / self.apart, self.fused / self.contractions
        return f"| {self.model} | {sizes} | {100 * less:.1f} % | {ratio:.2f} |"


HEADER: Final = (
    "| model | op by op, MB | fused | contractions alone | less | fused / contractions |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: |"
)


def row_of(name: str, model: onnx.ModelProto | Path, inputs: dict[str, tuple[int, ...]]) -> Row:
    """Counts the bytes of ``model`` for inputs of these shapes."""
    fused, apart = (_module(model, inputs, level) for level in (3, 0))
    return Row(name, _total(apart).total, _total(fused).total, _contractions(fused))


def _module(model: onnx.ModelProto | Path, shapes: dict[str, tuple[int, ...]], level: int) -> Module:
    options = gw.CompileOptions(opt_level=level)
    return unpacked_module(gw.compile(model, shapes=shapes, options=options).package)


def _total(module: Module) -> Traffic:
    return total_of(traffic_of(module))[0]


def _contractions(module: Module) -> int:
    regions = [node for node in module.walk() if isinstance(node.op, Fused)]
    constants = frozenset(value for node in regions for value in _constants(node))
    return sum(_bytes(node, constants, module) for node in module.walk() if _is_contraction(node))


def _is_contraction(node: Node) -> bool:
    return Trait.CONTRACTION in node.op.traits or node.op.name in KERNELS_OF_THEIR_OWN


def _constants(node: Node) -> frozenset[Value]:
    """Inputs of the region of ``node`` that are constant outside of it."""
    pairs = zip(region_of(node).inputs, node.inputs, strict=True)
    return frozenset(inner for inner, outer in pairs if outer is not None and is_constant(outer))


def _bytes(node: Node, constants: frozenset[Value], module: Module) -> int:
    values = dict.fromkeys(v for v in (*node.inputs, *node.outputs) if v is not None)
    moved = [v for v in values if v not in constants and not is_constant(v) and v.type.shape is not None]
    return sum(nominal(v.type.bytes, module.symbols) for v in moved)


def rows(names: Sequence[str]) -> list[Row]:
    """Counts and prints the models whose names contain one of ``names``."""
    print(HEADER)
    made = []
    for tokens in TOKENS:
        if any(part in f"decoder_{tokens}" for part in names):
            made.append(row_of(f"decoder_{tokens}", decoder_layer(tokens), {}))
            print(made[-1], flush=True)
    for name, model in MODELS.items():
        if any(part in name for part in names):
            shapes = dict(model.variants["default"].shapes)
            made.append(row_of(name, model.path(), shapes))
            print(made[-1], flush=True)
    return made


def main() -> None:
    """Runs the command."""
    command = argparse.ArgumentParser(
        prog="python -m benchmarks.fusion.traffic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="part of a model's name")
    command.add_argument("--results", type=Path, default=FILE)
    given = command.parse_args()
    made = rows(given.names or [""])
    write_rows(given.results, [OURS], map(vars, made))


if __name__ == "__main__":
    main()
