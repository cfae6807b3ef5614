"""DepthToSpace, and the base class that it shares with SpaceToDepth."""

from __future__ import annotations

from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    Fact,
    Importer,
    Inference,
    InferError,
    Op,
    Sample,
    UnknownRank,
    arg,
    family,
    op,
)
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, floordiv, numbers, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose

MODES = ("DCR", "CRD")
Steps = tuple[tuple[Dim, ...], tuple[int, ...], tuple[Dim, ...]]
"""The shape of a reshape, the permutation of a transpose, and the shape of a second reshape."""


@family
class BlockRearrangement(Op):
    """Base class of ops that move elements between channels and blocks of ``block`` x ``block`` pixels.

    ``mode`` is the order of the channels: DCR has the position in the block before the depth, CRD after it.
    """

    block: int
    mode: str = "DCR"

    def verify(self) -> None:
        if self.block < 1:
            raise InferError(f"the block size is {self.block}; it must be at least 1")
        if self.mode not in MODES:
            raise InferError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")

    def reference(self, x: Array) -> Array:
        split, perm, merged = self.steps(x.shape)
        return x.reshape(numbers(split)).transpose(perm).reshape(numbers(merged))

    def decompose(self, b: Builder, x: Value) -> Value:
        if x.type.shape is None:
            raise UnknownRank
        split, perm, merged = self.steps(x.type.shape)
        result: Value = b(Reshape(merged), b(Transpose(perm), b(Reshape(split), x)))
        return result

    def steps(self, shape: tuple[Dim, ...]) -> Steps:
        """The reshape, transpose and reshape that compute the op on an input of ``shape``."""
        raise NotImplementedError(self.name)


@op("DepthToSpace")
class DepthToSpace(BlockRearrangement):
    """Rearranges channels of x[N, C, H, W] into blocks of pixels: y[N, C / block^2, H * block, W * block].

    ``mode`` is DCR (depth, column, row) or CRD, as in ONNX; CRD is PyTorch's ``pixel_shuffle``.
    """

    def infer(self, at: Inference, x: Fact) -> TensorType:
        n, c, h, w = image(at, x)
        parts = self.block**2
        channels = at.divide(c, parts, "channels of the input")
        return TensorType(x.dtype, (n, channels, h * self.block, w * self.block))

    def steps(self, shape: tuple[Dim, ...]) -> Steps:
        n, c, h, w = shape
        s, depth = self.block, floordiv(c, self.block**2)
        merged = (n, depth, h * s, w * s)
        if self.mode == "DCR":
            return (n, s, s, depth, h, w), (0, 3, 4, 1, 5, 2), merged
        return (n, depth, s, s, h, w), (0, 1, 4, 2, 5, 3), merged


def image(at: Inference, x: Fact) -> tuple[Dim, Dim, Dim, Dim]:
    """The sizes N, C, H, W. Raises InferError if ``x`` does not have 4 axes."""
    if x.rank != 4:
        raise at.fail(f"the input is {x.type}; it must be [N, C, H, W]")
    n, c, h, w = x.shape
    return n, c, h, w


def _import(i: Importer) -> Any:
    return i.emit(DepthToSpace(i.required_attr("blocksize"), i.attr("mode", "DCR")), i.input(0))


DepthToSpace.onnx = {("DepthToSpace", 1): _import}
DepthToSpace.to_onnx = as_onnx("DepthToSpace", blocksize="block", mode="mode")
DepthToSpace.samples = (
    Sample(DepthToSpace(2), (arg(F32, symbol("N"), 8, 2, 3),)),
    Sample(DepthToSpace(2, "CRD"), (arg(F32, 1, 12, symbol("H"), 2),)),
    Sample(DepthToSpace(2), (arg(F32, 1, 6, 2, 2),), "channels of the input: 6 is not a multiple of 4"),
    Sample(DepthToSpace(2), (arg(F32, 8, 2, 2),), "it must be [N, C, H, W]"),
    Sample(DepthToSpace(2, "RDC"), (arg(F32, 1, 4, 2, 2),), "mode 'RDC'"),
    Sample(DepthToSpace(0), (arg(F32, 1, 4, 2, 2),), "the block size is 0"),
)
