"""Damaged ONNX models, and attempts to read them.

The mutants are a pure function of their number. Run this file as a script to try a range of them:
``python -m tests.fuzz.onnx_bytes FIRST LAST``.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, helper, numpy_helper

from graphwright import ops
from graphwright.errors import GraphwrightError
from graphwright.frontends.onnx import load

MEMORY = 4 << 30
"""Bytes of address space of the subprocess: a mutant that asks for terabytes must not get them."""

ops.load()


def _tensor(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def _info(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[str], weights: list[Any], **rest: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, [_info(o, None) for o in outputs], weights)
    imports = [helper.make_opsetid("", rest.pop("opset", 17)), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **rest)


def convolutions() -> onnx.ModelProto:
    """A small image network, as the light models are built."""
    generator = np.random.default_rng(0)
    weights = [
        _tensor("w", generator.standard_normal((4, 3, 3, 3), np.float32)),
        _tensor("b", np.zeros(4, np.float32)),
        *(_tensor(f"bn{i}", np.ones(4, np.float32)) for i in range(4)),
        _tensor("fc", generator.standard_normal((16, 5), np.float32)),
        _tensor("shape", np.array([0, -1])),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node(
            "BatchNormalization", ["c", "bn0", "bn1", "bn2", "bn3"], ["n"], "norm", epsilon=1e-3
        ),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("AveragePool", ["p"], ["q"], "mean", kernel_shape=[1, 1], auto_pad="SAME_UPPER"),
        helper.make_node("Concat", ["p", "q"], ["k"], "both", axis=1),
        helper.make_node("Split", ["k"], ["s0", "s1"], "halves", axis=1),
        helper.make_node("Sum", ["s0", "s1"], ["t"], "sum"),
        helper.make_node("Reshape", ["t", "shape"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "fc"], ["g"], "fc", alpha=0.5),
        helper.make_node("Softmax", ["g"], ["y"], "softmax", axis=-1),
    ]
    return _model(nodes, [_info("x", ["batch", 3, 8, 8])], ["y"], weights)


def shapes() -> onnx.ModelProto:
    """Arithmetic on sizes, as exporters write it."""
    weights = [
        _tensor("zero", np.array([0])),
        _tensor("two", np.array([2])),
        _tensor("ends", np.array([1, 2])),
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "size"),
        helper.make_node("Slice", ["s", "zero", "two"], ["head"], "head"),
        helper.make_node("Constant", [], ["minus"], "minus", value=_tensor("", np.array([-1]))),
        helper.make_node("Concat", ["head", "minus"], ["to"], "to", axis=0),
        helper.make_node("Reshape", ["x", "to"], ["a"], "fold"),
        helper.make_node("Transpose", ["a"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("Unsqueeze", ["t", "ends"], ["u"], "wide"),
        helper.make_node("Squeeze", ["u", "ends"], ["v"], "narrow"),
        helper.make_node("Cast", ["v"], ["w"], "cast", to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["w"], ["y"], "mean", axes=[1], keepdims=0),
    ]
    return _model(nodes, [_info("x", ["n", "m", 2, 3])], ["y"], weights)


def functions() -> onnx.ModelProto:
    """A function that calls another, attributes by reference, an op that only the specification defines."""
    reference = helper.make_node("LeakyRelu", ["a"], ["b"], "leaky")
    reference.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "inner", ["a"], ["b"], [reference], imports, ["slope"])
    call = helper.make_node("inner", ["a"], ["b"], "call", domain="local", slope=0.25)
    outer = helper.make_function("local", "outer", ["a"], ["b"], [call], imports)
    nodes = [
        helper.make_node("outer", ["x"], ["o"], "run", domain="local"),
        helper.make_node("MeanVarianceNormalization", ["o"], ["y"], "norm", axes=[1]),
    ]
    return _model(nodes, [_info("x", [2, 3])], ["y"], [], functions=[inner, outer])


def subgraphs() -> onnx.ModelProto:
    """Branches that read outer values."""
    then = helper.make_graph([helper.make_node("Add", ["r", "w"], ["t"])], "then", [], [_info("t", None)])
    other = helper.make_graph([helper.make_node("Mul", ["r", "w"], ["e"])], "else", [], [_info("e", None)])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("If", ["c"], ["y"], "either", then_branch=then, else_branch=other),
    ]
    weights = [_tensor("w", np.ones((2, 3), np.float32))]
    return _model(nodes, [_info("x", [2, None]), _info("c", [], TensorProto.BOOL)], ["y"], weights)


SEEDS: tuple[Callable[[], onnx.ModelProto], ...] = (convolutions, shapes, functions, subgraphs)


@cache
def seed_bytes(index: int) -> bytes:
    return SEEDS[index]().SerializeToString()


# Mutations of bytes


def flip_bits(data: bytearray, generator: np.random.Generator) -> None:
    for _ in range(int(generator.integers(1, 5))):
        data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))


def delete_bytes(data: bytearray, generator: np.random.Generator) -> None:
    start = int(generator.integers(len(data)))
    del data[start : start + int(generator.integers(1, 9))]


def truncate(data: bytearray, generator: np.random.Generator) -> None:
    del data[int(generator.integers(len(data))) :]


def repeat_bytes(data: bytearray, generator: np.random.Generator) -> None:
    start = int(generator.integers(len(data)))
    data[start:start] = data[start : start + int(generator.integers(1, 40))]


# Mutations of the structure: one field of one message, found by walking the descriptors


ABSURD = (0, -1, 1, 2, 7, 27, 99, 2**31 - 1, -(2**31), 2**62, -(2**63))
TEXTS = ("", "x", "y", "\x1b[2J", "*/", "a" * 300, "../../etc/passwd", "inner", "Relu", "Conv", "SAME_LOWER")


def messages(message: Any) -> list[Any]:
    """``message`` and every message inside it."""
    found, pending = [], [message]
    while pending:
        current = pending.pop()
        found.append(current)
        for descriptor, value in current.ListFields():
            if descriptor.message_type is None:
                continue
            pending.extend(value if descriptor.is_repeated else [value])
    return found


def pick(items: Any, generator: np.random.Generator) -> Any:
    return items[int(generator.integers(len(items)))]


def strange(descriptor: Any, generator: np.random.Generator) -> Any:
    """An unexpected value of the field's type."""
    match descriptor.cpp_type:
        case descriptor.CPPTYPE_STRING:
            chosen = pick(TEXTS, generator)
            return chosen.encode() if descriptor.type == descriptor.TYPE_BYTES else chosen
        case descriptor.CPPTYPE_FLOAT | descriptor.CPPTYPE_DOUBLE:
            return pick((float("nan"), float("inf"), -0.0, 1e30), generator)
        case descriptor.CPPTYPE_INT32 | descriptor.CPPTYPE_ENUM:
            return pick([v for v in ABSURD if -(2**31) <= v < 2**31], generator)
        case descriptor.CPPTYPE_INT64:
            return pick(ABSURD, generator)
        case _:
            return pick([v for v in ABSURD if v >= 0], generator)


def change_field(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    message = pick([m for m in messages(model) if m.ListFields()], generator)
    descriptor, value = pick(message.ListFields(), generator)
    if descriptor.message_type is not None:
        message.ClearField(descriptor.name)
    elif descriptor.is_repeated:
        value[int(generator.integers(len(value)))] = strange(descriptor, generator)
    else:
        setattr(message, descriptor.name, strange(descriptor, generator))


def drop_item(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    value = pick([v for m in messages(model) for d, v in m.ListFields() if d.is_repeated], generator)
    del value[int(generator.integers(len(value)))]


def repeat_item(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    value = pick([v for m in messages(model) for d, v in m.ListFields() if d.is_repeated], generator)
    item = pick(value, generator)
    value.extend([item])


def swap_names(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    nodes = [m for m in messages(model) if isinstance(m, onnx.NodeProto)]
    places = [names for node in nodes for names in (node.input, node.output) if len(names)]
    one, other = pick(places, generator), pick(places, generator)
    i, j = int(generator.integers(len(one))), int(generator.integers(len(other)))
    one[i], other[j] = other[j], one[i]


def swap_attributes(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    attributes = [m for m in messages(model) if isinstance(m, onnx.AttributeProto)]
    one, other = pick(attributes, generator), pick(attributes, generator)
    name, copy = one.name, onnx.AttributeProto()
    copy.CopyFrom(other)
    one.CopyFrom(copy)
    one.name = name


def change_type(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    typed = [m for m in messages(model) if isinstance(m, onnx.AttributeProto | onnx.TensorProto)]
    chosen = pick(typed, generator)
    if isinstance(chosen, onnx.AttributeProto):
        chosen.type = pick(range(16), generator)
    else:
        chosen.data_type = pick(range(28), generator)


BYTES = (flip_bits, delete_bytes, truncate, repeat_bytes)
STRUCTURE = (change_field, change_field, drop_item, repeat_item, swap_names, swap_attributes, change_type)


def mutant(number: int) -> bytes:
    """Mutant ``number``: one in four is damaged in its bytes, the others in their structure."""
    generator = np.random.default_rng(number)
    data = seed_bytes(number % len(SEEDS))
    if number // len(SEEDS) % 4 == 0:
        damaged = bytearray(data)
        pick(BYTES, generator)(damaged, generator)
        return bytes(damaged)
    model = onnx.ModelProto.FromString(data)
    for _ in range(int(generator.integers(1, 4))):
        if not damage_structure(model, generator):
            break
    return model.SerializeToString()


def damage_structure(model: onnx.ModelProto, generator: np.random.Generator) -> bool:
    """Damages a message. Returns whether there was something to change, and the message is not nested
    too deeply.
    """
    try:
        pick(STRUCTURE, generator)(model, generator)
    except (ValueError, EncodeError, DecodeError):
        return False
    return True


def parses(data: bytes) -> bool:
    try:
        return onnx.ModelProto.FromString(data).HasField("graph")
    except DecodeError:
        return False


def attempt(number: int) -> str:
    """Read one mutant: ``read``, or the code of its first fault; other exceptions go through."""
    try:
        load(mutant(number))
    except GraphwrightError as error:
        return error.diagnostics[0].code
    return "read"


def timed_attempt(number: int) -> tuple[str, float]:
    """The result of :func:`attempt`, and its CPU time in seconds."""
    start = time.process_time()
    outcome = attempt(number)
    return outcome, time.process_time() - start


def main(first: int, last: int) -> None:
    """Try mutants ``first`` to ``last`` within :data:`MEMORY`; a crash leaves its stack on stderr."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in range(first, last):
        attempt(number)
    print(last - first, "mutants")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
