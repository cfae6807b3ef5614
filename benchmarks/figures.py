"""What a compiled model needs besides time: bytes of its memory plan, beside the least, and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import graphwright as gw
import graphwright.ops
from benchmarks.models import Array, DevModel
from graphwright.frontends.onnx import load
from graphwright.ir.graph import Node
from graphwright.lower.tasks import Program, Storage
from graphwright.memory.liveness import live_bytes
from graphwright.ops.conv import Conv
from graphwright.ops.conv_transpose import ConvTranspose
from graphwright.ops.gemm import Gemm
from graphwright.ops.matmul import MatMul
from graphwright.passes.manager import PassManager
from graphwright.passes.pipeline import SHAPES
from graphwright.runtime.devices.cpu import Cpu

ALIGNMENT = 64


def memory_plan(package: Path, feeds: Mapping[str, Array], threads: int) -> dict[str, int]:
    """``arena``, ``largest_live`` and ``weights`` in bytes; nothing where ranks are known at a feed only."""
    model = gw.load(package, trust=True)
    if not isinstance(model.device, Cpu):
        return {}
    plan = model.device.plan([feeds[spec.name].shape for spec in model.inputs], threads)
    (target,) = model.package.targets.values()
    sizes = _planned(target.program, plan["sizes"], threads)
    live = live_bytes(sizes, target.program.tasks, target.program.blocks)
    return {"arena": plan["arena"], "largest_live": live, "weights": len(model.package.weights.data)}


def _planned(program: Program, sizes: list[int], threads: int) -> dict[int, int]:
    """Buffers of the arena with their bytes there: scratch once for each thread."""
    copies = {Storage.ARENA: 1, Storage.SCRATCH: threads}
    return {
        number: copies[buffer.storage] * -(-size // ALIGNMENT) * ALIGNMENT
        for number, (buffer, size) in enumerate(zip(program.buffers, sizes, strict=True))
        if buffer.storage in copies
    }


def operations(model: DevModel) -> int:
    """Multiplications and additions of convolutions and matrix products, done directly, at default sizes."""
    graphwright.ops.load()
    default = model.variants["default"]
    module = load(model.path(), shapes=default.shapes, constants=default.values)
    PassManager((SHAPES,)).run(module)
    return sum(_operations(node) for node in module.walk())


def _operations(node: Node) -> int:
    if not isinstance(node.op, (Conv, ConvTranspose, Gemm, MatMul)):
        return 0
    a, b, out = (_sizes(value) for value in (*node.inputs[:2], node.output))
    if isinstance(node.op, ConvTranspose):
        return 2 * math.prod(a) * math.prod(b[1:])
    if isinstance(node.op, Conv):
        return 2 * math.prod(out) * math.prod(b[1:])
    rows = isinstance(node.op, Gemm) and node.op.trans_a
    return 2 * math.prod(out) * a[-2 if rows else -1]


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(int(dim) for dim in value.type.dims)
