"""A node of the source model that stays as it is, for graphs that are written to its format again."""

from __future__ import annotations

from typing import Any

from graphwright.ir.exporter import Exporter
from graphwright.ir.graph import Value
from graphwright.ir.inference import Fact
from graphwright.ir.op import Inference, Op, Trait, op
from graphwright.ir.types import TensorType


@op("Foreign")
class Foreign(Op):
    """Gives ``types``, whatever it does; nothing here computes it, merges it or prunes it.

    ``node``: the source node without its operands, in the bytes of its format as hexadecimal digits.
    ``version``: of its domain.
    """

    op_type: str
    domain: str
    version: int
    node: str
    types: tuple[TensorType, ...]
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
