"""Cases of one op: an ONNX model and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
Step = tuple[str, str, str, Mapping[str, Any]]
"""A node: op, names of inputs, names of outputs, attributes."""
OPSET: Final = 20
CONTRIB: Final = "com.microsoft"
IR_VERSIONS: Final = {20: 9, 21: 10, 22: 10, 23: 11}
"""The oldest format of files that goes with each opset."""


@dataclass(frozen=True)
class Operand:
    """An input of a shape and dtype: normal numbers, or uniform ones in [low, high), or ``values``."""

    shape: tuple[int, ...]
    dtype: str = "f4"
    low: float | None = None
    high: float | None = None
    is_input: bool = True
    values: Any = None

    def array(self, seed: int) -> Array:
        """Random elements with a fixed seed, or the given values."""
        if self.values is not None:
            return np.array(self.values, self.dtype)
        rng = np.random.default_rng(seed)
        if self.low is None or self.high is None:
            return rng.standard_normal(self.shape, np.float32).astype(self.dtype)
        if np.dtype(self.dtype).kind in "iub":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


@dataclass(frozen=True)
class Case:
    """Nodes (op, inputs, outputs, attributes) over named operands; the results are those of the last node."""

    name: str
    nodes: Sequence[Step]
    operands: Mapping[str, Operand]
    opset: int = OPSET
    domain: str = ""
    tolerance: float = 1e-3
    """The tolerated difference between engines, relative to the largest element."""
    family: str = field(default="", compare=False)

    def arrays(self, inputs: bool) -> dict[str, Array]:
        """The arrays of the inputs, or those of the weights."""
        made = {name: operand.array(seed) for seed, (name, operand) in enumerate(self.operands.items())}
        return {name: array for name, array in made.items() if self.operands[name].is_input is inputs}

    def model(self) -> onnx.ModelProto:
        """The model, with types inferred."""
        feeds = self.arrays(inputs=True)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in self.arrays(inputs=False).items()]
        nodes = [
            helper.make_node(
                op, read.split(" "), written.split(" "), domain=self._domain_of(op), **dict(attributes)
            )
            for op, read, written, attributes in self.nodes
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output if name]
        graph = helper.make_graph(nodes, "case", inputs, outputs, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        ir_version = IR_VERSIONS[self.opset]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=ir_version), data_prop=True
        )

    def _domain_of(self, op: str) -> str:
        return "" if onnx.defs.has(op) else self.domain


def x(*shape: int, dtype: str = "f4", low: float | None = None, high: float | None = None) -> Operand:
    """An operand that is an input."""
    return Operand(shape, dtype, low, high)


def w(*shape: int, dtype: str = "f4", low: float | None = None, high: float | None = None) -> Operand:
    """A weight."""
    return Operand(shape, dtype, low, high, is_input=False)


def c(values: Any, dtype: str = "i8") -> Operand:
    """A constant, by default of int64."""
    return Operand(np.shape(values), dtype, is_input=False, values=values)


def given(values: Any, dtype: str = "i8") -> Operand:
    """An input with the given values."""
    return Operand(np.shape(values), dtype, values=values)


NONE: Final = Operand((), values=None, is_input=False, dtype="")
"""An optional operand that is left out."""


def one(
    name: str,
    op: str,
    *operands: Operand,
    outputs: str = "y",
    opset: int = OPSET,
    domain: str = "",
    tolerance: float = 1e-3,
    **attributes: Any,
) -> Case:
    """A case of one node; operands are called a, b, ..."""
    names = ["" if operand is NONE else chr(ord("a") + k) for k, operand in enumerate(operands)]
    named = {name: operand for name, operand in zip(names, operands, strict=True) if name}
    nodes: list[Step] = [(op, " ".join(names), outputs, attributes)]
    return Case(name, nodes, named, opset, domain, tolerance)
