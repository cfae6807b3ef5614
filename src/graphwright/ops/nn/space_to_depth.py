"""SpaceToDepth."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Fact, Importer, Inference, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, Operand
from graphwright.ir.symbols import Dim, floordiv, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.ops.nn.depth_to_space import BlockRearrangement, Steps, image


@op("SpaceToDepth")
class SpaceToDepth(BlockRearrangement):
    """Rearranges blocks of pixels of x[N, C, H, W] into channels: y[N, C * block^2, H / block, W / block].

    It is the inverse of DepthToSpace.
    """

    def infer(self, at: Inference, x: Fact) -> TensorType:
        n, c, h, w = image(at, x)
        s = self.block
        rows, columns = at.divide(h, s, "rows of the input"), at.divide(w, s, "columns of the input")
        return TensorType(x.dtype, (n, c * s * s, rows, columns))

    def steps(self, shape: tuple[Dim, ...]) -> Steps:
        n, c, h, w = shape
        s = self.block
        rows, columns = floordiv(h, s), floordiv(w, s)
        perm = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        return (n, c, rows, s, columns, s), perm, (n, c * s * s, rows, columns)


def _import(i: Importer) -> Any:
    return i.emit(SpaceToDepth(i.required_attr("blocksize"), i.attr("mode", "DCR")), i.input(0))


def _export(e: Exporter, op: SpaceToDepth, x: Operand) -> Any:
    """The attribute ``mode`` came with opset 28; before, the mode was DCR."""
    if op.mode == "DCR":
        return e.emit("SpaceToDepth", x, blocksize=op.block)
    return e.emit("SpaceToDepth", x, since=28, blocksize=op.block, mode=op.mode)


SpaceToDepth.to_onnx = _export
SpaceToDepth.onnx = {("SpaceToDepth", 1): _import}
SpaceToDepth.samples = (
    Sample(SpaceToDepth(2), (arg(F32, symbol("N"), 2, 4, 6),)),
    Sample(SpaceToDepth(2, "CRD"), (arg(F32, 1, 3, 2, 4),)),
    Sample(SpaceToDepth(2), (arg(F32, 1, 2, 3, 4),), "rows of the input: 3 is not a multiple of 2"),
    Sample(SpaceToDepth(2), (arg(F32, 2, 4, 4),), "it must be [N, C, H, W]"),
)
