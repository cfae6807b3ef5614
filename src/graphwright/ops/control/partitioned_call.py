"""PartitionedCall, a call of a model-local function. An op of graphwright; ONNX calls functions by name."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.op.region_op import CallOp


@op("PartitionedCall")
class PartitionedCall(CallOp):
    """Computes its region on its operands.

    Calls are always inlined before kernels are selected. A body that several calls share would receive their
    weights as operands, which can be neither packed nor folded: a layer would take 1.1 to 2.0 times as long
    (widths 64 to 768; ``python -m benchmarks.functions``). Inlining costs compile time and a little space: a
    layer of 24 nodes that is called 24 times compiles in 1.1 s instead of 0.1 s, and each call adds 5 KiB to
    the file. Equal kernels are generated once.
    """


def _export(e: Exporter, op: PartitionedCall, *operands: Value) -> Any:
    return e.inline(*operands)


PartitionedCall.to_onnx = _export
