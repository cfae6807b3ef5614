"""PartitionedCall."""

from __future__ import annotations

from typing import Any

from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Value
from graphwright.ir.op import op
from graphwright.ir.region_op import CallOp


@op("PartitionedCall")
class PartitionedCall(CallOp):
    """Computes its region on its operands.

    It is inlined before kernels are selected, however often a region occurs: one body for several calls would
    take their weights as operands, which nothing can pack or fold. A layer of 24 nodes called 24 times takes
    1.1 s to compile where one takes 0.1 s, its file 5 KiB more per call beside the weights, and no further
    kernel, as equal ones are made once; with weights as operands each run of a layer would take 1.1 to 2.0
    times as long (widths 64 to 768; ``python -m benchmarks.functions``).
    """


def _export(e: Exporter, op: PartitionedCall, *operands: Value) -> Any:
    return e.inline(*operands)


PartitionedCall.to_onnx = _export
