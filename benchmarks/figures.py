"""Figures of a compiled model other than times: bytes of its memory plan, their lower bound, and
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import graphwright as gw
import graphwright.ops
from benchmarks.models import Array, DevModel
from graphwright.frontends.onnx import load
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.symbols import Dim
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.conv_transpose import ConvTranspose
from graphwright.ops.nn.recurrent import Recurrent
from graphwright.passes.dead_code import DeadCode
from graphwright.passes.fixpoints import SHAPES
from graphwright.passes.manager import PassManager
from graphwright.runtime.devices.cpu import Cpu


def memory_plan(package: Path, feeds: Mapping[str, Array], threads: int) -> dict[str, int]:
    """``arena``, ``largest_live`` and ``weights`` in bytes; nothing where ranks are known at a feed only."""
    model = gw.load(package, trust=True)
    if not isinstance(model.executor, Cpu):
        return {}
    used = model.memory({spec.name: feeds[spec.name].shape for spec in model.inputs}, threads=threads)
    return {"arena": used.arena, "largest_live": used.live, "weights": used.weights + used.packed}


@dataclass(frozen=True)
class Work:
    """The work of a model at its default sizes."""

    flops: int
    """Multiplications and additions of convolutions, matrix products and recurrent layers, done directly."""
    bytes: int
    """Weights, inputs and outputs, each once."""


def work(model: DevModel) -> Work:
    """The arithmetic and memory traffic that every engine needs at least; only Winograd convolutions compute
    less.
    """
    module = shaped(model)
    constants = {node.op.value for node in module.walk() if isinstance(node.op, Constant)}
    values = [module.constants[ref].nbytes for ref in constants]
    ports = [*module.main.inputs, *module.main.outputs]
    known = [value.bytes for value in ports if value.type.shape is not None]
    values += [number for number in known if isinstance(number, int)]
    return Work(sum(_operations(node) for node in module.walk()), sum(values))


def shaped(model: DevModel) -> Module:
    """The imported module at its default sizes, constants folded."""
    graphwright.ops.load()
    default = model.variants["default"]
    module = load(model.path(), shapes=default.shapes, constants=default.values)
    PassManager((SHAPES, DeadCode())).run(module)
    return module


def _operations(node: Node) -> int:
    if not isinstance(node.op, (Conv, ConvTranspose, Gemm, MatMul, Recurrent)):
        return 0
    a, b = sizes(node.operand(0)), sizes(node.operand(1))
    if isinstance(node.op, Recurrent):
        return 2 * a[0] * a[1] * (math.prod(b) + math.prod(sizes(node.operand(2))))
    if isinstance(node.op, ConvTranspose):
        return 2 * math.prod(a) * math.prod(b[1:])
    if isinstance(node.op, Conv):
        return 2 * math.prod(sizes(node.output)) * math.prod(b[1:])
    rows = isinstance(node.op, Gemm) and node.op.trans_a
    return 2 * math.prod(sizes(node.output)) * a[-2 if rows else -1]


def numbers(dims: Sequence[Dim]) -> tuple[int, ...]:
    """``dims`` as integers; raises if one is symbolic."""
    if any(not isinstance(dim, int) for dim in dims):
        raise ValueError(f"{dims} are not all known")
    return tuple(dim for dim in dims if isinstance(dim, int))


def sizes(value: Value) -> tuple[int, ...]:
    """The dims of a value as integers; raises if one is symbolic."""
    return numbers(value.type.dims)
