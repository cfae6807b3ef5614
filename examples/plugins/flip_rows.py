"""An op with all interfaces: a kernel for channel blocks, a padding rule, and a decomposition."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import graphwright.plugins as gp
from graphwright.ops.core.slice import Slice

SOURCE = gp.CSource.read(Path(__file__).with_name("flip_rows.c"))


@gp.op("FlipRows")
class FlipRows(gp.BlockedForm, gp.PaddingRule, gp.Op):
    """Flips the rows of images [N, C, H, W]."""

    def infer(self, at: gp.Inference, x: gp.Fact) -> gp.TensorType:
        if x.rank != 4:
            raise at.fail(f"{x.type} is not a batch of images")
        return x.type

    def reference(self, x: gp.Array) -> gp.Array:
        return np.ascontiguousarray(x[:, :, ::-1])

    def decompose(self, b: gp.Builder, x: gp.Value) -> gp.Value:
        made: gp.Value = b(Slice((-1,), (-(2**62),), (2,), (-1,)), x)
        return made

    def padding_leak(self, node: gp.Node, padded: gp.Padded) -> str:
        return "it flips a padded axis" if padded.among(node.operand(0), [2]) else ""

    def blocked_form(
        self, node: gp.Node, operands: Sequence[gp.Value | None], lanes: int
    ) -> gp.Blocked | str:
        x = node.operand(0)
        return gp.Blocked() if gp.can_be_blocked(x) else f"{x.type} has no channel blocks"

    onnx = gp.FromNode("FlipRows", 1, "example")


FlipRows.samples = (
    gp.Sample(FlipRows(), (gp.arg(gp.F32, gp.symbol("N"), 3, gp.symbol("H"), 5),)),
    gp.Sample(FlipRows(), (gp.arg(gp.I32, 2, 3, 4, 5),)),
    gp.Sample(FlipRows(), (gp.arg(gp.F32, 2, 3),), error="is not a batch of images"),
)


@gp.candidate(FlipRows, serves=lambda node: node.operand(0).type.dtype == gp.F32)
def flip_rows(node: gp.Node, context: gp.Context) -> gp.Launch | str:
    """In channel blocks a row is longer; otherwise the kernel is the same."""
    x, y = node.operand(0), node.output
    images, channels, rows, *row = gp.stored_shape(x)
    return gp.Launch(
        context.c_function(SOURCE, "flip_rows"),
        operands=(x, y),
        writes=(1,),
        args=(rows, gp.product(row)),
        grid=images * channels * rows,
    )
