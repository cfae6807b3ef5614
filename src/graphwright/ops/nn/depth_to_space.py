"""DepthToSpace, and what it shares with SpaceToDepth."""

from __future__ import annotations

from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, UnknownRank, arg, op
from graphwright.ir.symbols import Dim, floordiv, numbers, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose

MODES = ("DCR", "CRD")


@op("DepthToSpace")
class DepthToSpace(Op):
    """Channels become blocks of ``block`` x ``block`` pixels, ordered depth last (DCR) or first (CRD)."""

    block: int
    mode: str = "DCR"

    def verify(self) -> None:
        check_block(self.block, self.mode)

    def infer(self, at: Inference, x: Fact) -> TensorType:
        n, c, h, w = image(at, x)
        parts = self.block**2
        at.equal(floordiv(c, parts) * parts, c, f"{c} channels in blocks of {parts}")
        return TensorType(x.dtype, (n, floordiv(c, parts), h * self.block, w * self.block))

    def reference(self, x: Array) -> Array:
        split, perm, merged = self._steps(x.shape)
        return x.reshape(numbers(split)).transpose(perm).reshape(numbers(merged))

    def decompose(self, b: Builder, x: Value) -> Value:
        split, perm, merged = self._steps(sizes_of(x))
        made: Value = b(Reshape(merged), b(Transpose(perm), b(Reshape(split), x)))
        return made

    def _steps(self, shape: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], tuple[int, ...], tuple[Dim, ...]]:
        n, c, h, w = shape
        s, depth = self.block, floordiv(c, self.block**2)
        merged = (n, depth, h * s, w * s)
        if self.mode == "DCR":
            return (n, s, s, depth, h, w), (0, 3, 4, 1, 5, 2), merged
        return (n, depth, s, s, h, w), (0, 1, 4, 2, 5, 3), merged


def check_block(block: int, mode: str) -> None:
    """Refuse blocks and modes that mean nothing."""
    if block < 1:
        raise InferError(f"blocks of {block}: at least 1 is needed")
    if mode not in MODES:
        raise InferError(f"mode {mode!r} is not one of {', '.join(MODES)}")


def image(at: Inference, x: Fact) -> tuple[Dim, Dim, Dim, Dim]:
    """Sizes N, C, H, W."""
    if x.rank != 4:
        raise at.fail(f"the input is {x.type}; it must be [N, C, H, W]")
    n, c, h, w = x.shape
    return n, c, h, w


def sizes_of(x: Value) -> tuple[Dim, ...]:
    if x.type.shape is None:
        raise UnknownRank
    return x.type.shape


def _import(i: Importer) -> Any:
    return i.emit(DepthToSpace(i.required_attr("blocksize"), i.attr("mode", "DCR")), i.input(0))


DepthToSpace.onnx = {("DepthToSpace", 1): _import}
DepthToSpace.to_onnx = as_onnx("DepthToSpace", blocksize="block", mode="mode")
DepthToSpace.samples = (
    Sample(DepthToSpace(2), (arg(F32, symbol("N"), 8, 2, 3),)),
    Sample(DepthToSpace(2, "CRD"), (arg(F32, 1, 12, symbol("H"), 2),)),
    Sample(DepthToSpace(2), (arg(F32, 1, 6, 2, 2),), "4 and 6 differ"),
    Sample(DepthToSpace(2), (arg(F32, 8, 2, 2),), "it must be [N, C, H, W]"),
    Sample(DepthToSpace(2, "RDC"), (arg(F32, 1, 4, 2, 2),), "mode 'RDC'"),
    Sample(DepthToSpace(0), (arg(F32, 1, 4, 2, 2),), "blocks of 0"),
)
