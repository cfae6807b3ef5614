"""Damaged models for the whole path: those of the frontend's tests, and others whose numbers alone are wrong.

A mutant is a pure function of its number. Damage to structure is mostly found by the frontend; a wrong size,
axis or index in a model that is well-formed goes through inference, fusion, kernels and the planner.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from tests.fuzz import onnx_bytes
from tests.robustness.seeds import SEEDS

NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 1000, -1, -2, -3, -8, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))


@cache
def _seed(index: int) -> bytes:
    return SEEDS[index]()


def mutant(number: int) -> bytes:
    """Every other one is of the frontend's kind; of the others one in four has its structure damaged too."""
    if number % 2:
        return onnx_bytes.mutant(number // 2)
    generator = np.random.default_rng(number)
    damaged = onnx.ModelProto.FromString(_seed(number // 2 % len(SEEDS)))
    for _ in range(int(generator.integers(1, 4))):
        onnx_bytes.pick((_change_attribute, _change_weight, _change_input, _change_type), generator)(
            damaged.graph, generator
        )
    if number // 2 // len(SEEDS) % 4 == 0:
        onnx_bytes.damage_structure(damaged, generator)
    data: bytes = damaged.SerializeToString()
    return data


def _change_attribute(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    """Changes an attribute of a node, or of one in the body of a loop or branch."""
    attributes = [
        m
        for m in onnx_bytes.messages(graph)
        if isinstance(m, onnx.AttributeProto) and (m.ints or m.type == onnx.AttributeProto.INT)
    ]
    chosen = onnx_bytes.pick(attributes, generator)
    if chosen.ints:
        chosen.ints[int(generator.integers(len(chosen.ints)))] = onnx_bytes.pick(NUMBERS, generator)
    else:
        chosen.i = onnx_bytes.pick(NUMBERS, generator)


def _change_weight(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    """Another number, another length, or another axis."""
    chosen = onnx_bytes.pick(graph.initializer, generator)
    array = numpy_helper.to_array(chosen).copy()
    match int(generator.integers(4)):
        case 0 if array.ndim:
            array = np.take(array, range(int(generator.integers(array.shape[0] + 1))), axis=0)
        case 1:
            array = array[None] if generator.random() < 0.5 else array.T
        case _ if array.size:
            number = np.int64(onnx_bytes.pick(NUMBERS, generator))
            array.flat[int(generator.integers(array.size))] = number.astype(array.dtype)
    chosen.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), chosen.name))


def _change_input(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    dims = [d for value in graph.input for d in value.type.tensor_type.shape.dim]
    if dims:
        onnx_bytes.pick(dims, generator).dim_value = onnx_bytes.pick(NUMBERS, generator)


def _change_type(graph: onnx.GraphProto, generator: np.random.Generator) -> None:
    """Changes the type of an input or of a cast; an input may lose its shape."""
    value = onnx_bytes.pick(graph.input, generator)
    if generator.random() < 0.5:
        value.type.tensor_type.ClearField("shape")
    else:
        value.type.tensor_type.elem_type = int(onnx_bytes.pick((1, 7, 9, 10, 11, 16, 2, 3), generator))


def parses(data: bytes) -> bool:
    """Whether it is still a model by its encoding."""
    try:
        return bool(onnx.ModelProto.FromString(data).HasField("graph"))
    except DecodeError:
        return False
