"""The Fail op, the body of a branch that cannot run with the sizes of the model. Its source is the error of
inference, which is raised if the branch is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from graphwright.errors import Diagnostic
from graphwright.ir.graph import Graph, Node
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


def failing_region(region: Graph, types: Sequence[TensorType], reason: Diagnostic) -> Graph:
    """A region with the inputs of ``region`` that fails when it runs; its outputs have ``types``."""
    failing = Graph(region.name)
    for value in region.inputs:
        failing.add_input(value.type, value.name)
    location = f"{reason.where}: {reason.message}"
    node = failing.append(Node(Fail(tuple(types)), (), types, sources=(location,)))
    failing.set_outputs(node.outputs, region.output_names)
    return failing


def _export(e: Exporter, op: Fail) -> Any:
    return e.failure(op.types)


Fail.to_onnx = _export
