"""SpaceToDepth."""

from __future__ import annotations

from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import Dim, floordiv, numbers, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.depth_to_space import check_block, image, sizes_of


@op("SpaceToDepth")
class SpaceToDepth(Op):
    """Blocks of ``block`` x ``block`` pixels become channels, ordered depth last (DCR) or first (CRD)."""

    block: int
    mode: str = "DCR"

    def verify(self) -> None:
        check_block(self.block, self.mode)

    def infer(self, at: Inference, x: Fact) -> TensorType:
        n, c, h, w = image(at, x)
        s = self.block
        for dim, side in ((h, "rows"), (w, "columns")):
            at.equal(floordiv(dim, s) * s, dim, f"{dim} {side} in blocks of {s}")
        return TensorType(x.dtype, (n, c * s * s, floordiv(h, s), floordiv(w, s)))

    def reference(self, x: Array) -> Array:
        split, perm, merged = self._steps(x.shape)
        return x.reshape(numbers(split)).transpose(perm).reshape(numbers(merged))

    def decompose(self, b: Builder, x: Value) -> Value:
        split, perm, merged = self._steps(sizes_of(x))
        made: Value = b(Reshape(merged), b(Transpose(perm), b(Reshape(split), x)))
        return made

    def _steps(self, shape: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], tuple[int, ...], tuple[Dim, ...]]:
        n, c, h, w = shape
        s = self.block
        rows, columns = floordiv(h, s), floordiv(w, s)
        perm = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        return (n, c, rows, s, columns, s), perm, (n, c * s * s, rows, columns)


def _import(i: Importer) -> Any:
    return i.emit(SpaceToDepth(i.required_attr("blocksize"), i.attr("mode", "DCR")), i.input(0))


SpaceToDepth.to_onnx = as_onnx("SpaceToDepth", blocksize="block")
SpaceToDepth.onnx = {("SpaceToDepth", 1): _import}
SpaceToDepth.samples = (
    Sample(SpaceToDepth(2), (arg(F32, symbol("N"), 2, 4, 6),)),
    Sample(SpaceToDepth(2, "CRD"), (arg(F32, 1, 3, 2, 4),)),
    Sample(SpaceToDepth(2), (arg(F32, 1, 2, 3, 4),), "3 rows in blocks of 2"),
    Sample(SpaceToDepth(2), (arg(F32, 2, 4, 4),), "it must be [N, C, H, W]"),
)
