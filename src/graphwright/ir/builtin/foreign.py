"""The Foreign op: a node of the source model that stays unchanged, for graphs that are exported to the format
of the model again.
"""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Inference, Op, Trait, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.op.inference import Fact
from graphwright.ir.types import TensorType


@op("Foreign")
class Foreign(Op):
    """A node with results of ``types`` that is never computed, merged or removed.

    ``node``: the serialized source node without operands, in hexadecimal. ``version``: the opset of its
    domain. ``is_native``: whether it can be translated to ops that a program runs.
    """

    op_type: str
    domain: str
    version: int
    node: str
    types: tuple[TensorType, ...]
    is_native: bool = False
    traits = Trait.EFFECT
    optional_inputs = frozenset(range(64))

    @property
    def source_name(self) -> str:
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    def output_count(self) -> int:
        return len(self.types)

    def infer(self, at: Inference, *inputs: Fact | None) -> tuple[TensorType, ...]:
        return self.types


def _export(e: Exporter, op: Foreign, *inputs: Value | None) -> Any:
    return e.verbatim(bytes.fromhex(op.node), op.version, *inputs)


Foreign.to_onnx = _export
