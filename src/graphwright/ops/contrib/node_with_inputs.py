"""An importer of a node with other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer


class NodeWithInputs:
    """An importer of the same node with other inputs, none of which is a constant of the source model."""

    def __init__(self, i: Importer, inputs: Sequence[Value | None]) -> None:
        self._importer, self._inputs = i, inputs

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self._importer.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self._inputs[index] if index < len(self._inputs) else None

    def inputs(self) -> list[Value | None]:
        return list(self._inputs)

    def constant(self, index: int) -> Array | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._importer, name)
