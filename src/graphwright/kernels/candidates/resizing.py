"""Resize over the last two axes."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.resize import Coordinates, Rounding
from graphwright.kernels.library.resize import Resize as ResizeKernel
from graphwright.kernels.ref import KernelRef
from graphwright.ops.resize import Resize

_SYMBOLS = {"nearest": ResizeKernel.NEAREST, "linear": ResizeKernel.LINEAR, "cubic": ResizeKernel.CUBIC}


@candidate(Resize)
def resize(node: Node, context: Context) -> Run | str:
    op, x, y = node.op, node.operand(0), node.output
    assert isinstance(op, Resize)
    shape, out = x.type.dims, y.type.dims
    if x.type.dtype != F32 or len(shape) < 2:
        return f"no resize kernel for {x.type}"
    if op.crops or op.antialias or shape[:-2] != out[:-2]:
        return "no resize kernel that crops, filters against aliasing or resizes other axes than the last two"
    scales = op.scales or (0.0,) * len(shape)
    made = ResizeKernel(
        _SYMBOLS[op.mode],
        product(shape[:-2]),
        height=shape[-2],
        width=shape[-1],
        out_height=out[-2],
        out_width=out[-1],
        x_strides=(shape[-2] * shape[-1], shape[-1]),
        y_strides=(out[-2] * out[-1], out[-1]),
        scale_h=scales[-2],
        scale_w=scales[-1],
        coordinates=Coordinates[op.coordinates.upper()],
        rounding=Rounding[op.rounding.upper()],
        cubic_a=op.cubic_a,
        exclude_outside=op.exclude_outside,
    )
    launch = Launch(
        KernelRef(made.symbol), (x, y), (1,), made.args, made.grid, made.scratch_bytes, made.work_ns
    )
    return Run((launch,))
