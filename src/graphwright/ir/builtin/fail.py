"""The Fail op, the body of a branch that cannot run."""

from __future__ import annotations

from typing import Any, NoReturn

from graphwright.ir.op import Inference, Op, Trait, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.types import TensorType


@op("Fail")
class Fail(Op):
    """Ends the run with an error; declares outputs of ``types``. The source of the node says why."""

    types: tuple[TensorType, ...]
    traits = Trait.EFFECT

    def output_count(self) -> int:
        return len(self.types)

    def infer(self, at: Inference) -> tuple[TensorType, ...]:
        return self.types

    def reference(self) -> NoReturn:
        raise RuntimeError("the model chose a branch that cannot run on inputs of these shapes")


def _export(e: Exporter, op: Fail) -> Any:
    return e.failure(op.types)


Fail.to_onnx = _export
