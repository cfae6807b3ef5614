"""Kernels of rows in C: pairs of rows with reductions and short rows, in any chunks, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.fusion.fuse import Fuse
from graphwright.ir.build import new_main_graph
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Module
from graphwright.ir.op import Op
from graphwright.ir.types import F32, tensor
from graphwright.loop_nests import RegionKernel, region_kernel
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.ops.nn.layer_normalization import LayerNormalization
from graphwright.ops.nn.softmax import Softmax
from graphwright.passes.manager import PassManager
from graphwright.passes.traversal import nodes_of
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.target import CpuTarget
from tests.kernels.library.cases import each_isa
from tests.targets.cpu.generated import compiled, outputs

Array = np.ndarray[Any, Any]


def kernel_of(op: Op, shapes: list[tuple[int, ...]], isa: Isa) -> RegionKernel:
    """The one kernel that the compiler makes of ``op``."""
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", tensor(F32, *s)) for k, s in enumerate(shapes)])
    module.main.set_outputs([b(op, *values)])
    passes = (*graph_passes(), *kernel_passes(CpuTarget(isa)))
    PassManager([replace(p, splits=False) if isinstance(p, Fuse) else p for p in passes]).run(module)
    ((_, node, fused),) = nodes_of(module, Fused)
    schedule = fused.schedule
    assert schedule is not None
    return region_kernel(region_of(node), schedule, module.constants, "k")


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_of_planes(x: Array) -> Array:
    return softmax(x.swapaxes(1, -1)).swapaxes(1, -1)


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


CASES: list[tuple[Op, Callable[..., Array], list[tuple[int, ...]]]] = [
    (Softmax(), softmax, [(6, 128)]),
    (Softmax(), softmax, [(8, 37)]),
    (Softmax(), softmax, [(2, 3, 5)]),
    (Softmax(), softmax, [(5, 128)]),
    (LayerNormalization(), layer_norm, [(6, 96), (96,), (96,)]),
    (LayerNormalization(), layer_norm, [(4, 35), (35,), (35,)]),
    (ReduceSum((1,)), lambda x: x.sum(1), [(10, 100)]),
    (ReduceMax((1,)), lambda x: x.max(1), [(10, 19)]),
    (Softmax(), softmax, [(3, 601, 3)]),
    (Softmax(), softmax, [(17, 8)]),
    (Softmax(1), softmax_of_planes, [(2, 5, 67)]),
    (Softmax(1), softmax_of_planes, [(2, 31, 300)]),
    (Softmax(1), softmax_of_planes, [(1, 9, 1024)]),
    (Softmax(0), lambda x: softmax(x.T).T, [(101, 7)]),
    (ReduceSum((1,)), lambda x: x.sum(1), [(1000, 4)]),
    (ReduceSum((1,)), lambda x: x.sum(1), [(13, 5)]),
    (ReduceSum((1,)), lambda x: x.sum(1), [(1, 5)]),
    (ReduceSum((0,)), lambda x: x.sum(0), [(1003, 8)]),
    (ReduceSum((0,)), lambda x: x.sum(0), [(31, 3)]),
    (ReduceSum((0, 2)), lambda x: x.sum((0, 2)), [(50, 3, 40)]),
    (ReduceSum((0, 2)), lambda x: x.sum((0, 2)), [(3, 40, 2)]),
    (ReduceSum((1,)), lambda x: x.sum(1), [(7, 45, 16)]),
    (ReduceMax((0, 1)), lambda x: x.max((0, 1)), [(37, 3, 5)]),
    (ReduceMax((1,)), lambda x: x.max(1), [(1000, 6)]),
    (LayerNormalization(), layer_norm, [(70, 6), (6,), (6,)]),
    (Mul(), np.multiply, [(3, 300, 21), (3, 1, 21)]),
    (Mul(), np.multiply, [(2, 3, 515, 16), (3, 1, 16)]),
    (Mul(), np.multiply, [(700, 3), (3,)]),
]


@each_isa
@pytest.mark.parametrize("op, meaning, shapes", CASES)
def test_rows_are_numpys_in_any_chunks(
    isa: Isa, op: Op, meaning: Callable[..., Array], shapes: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(4)
    feeds = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    made = kernel_of(op, shapes, isa)
    kernel, library = made.kernel, compiled((made.kernel,), isa)
    shape = {p.name: tuple(map(int, p.shape)) for p in kernel.parameters}
    *inputs, result = [p.name for p in kernel.parameters]
    by_size = sorted(feeds, key=lambda a: -a.size) if len(feeds) == 2 else feeds
    arrays = {name: array.reshape(shape[name]) for name, array in zip(inputs, by_size, strict=True)}
    arrays[result] = np.zeros(shape[result], np.float32)
    whole = outputs(library, kernel, arrays, {}, [result])[result]
    want = meaning(*(a.astype(np.float64) for a in feeds))
    np.testing.assert_allclose(whole.reshape(-1), want.reshape(-1), rtol=2e-6, atol=2e-6)
    for pieces in (2, 3, 7):
        part = outputs(library, kernel, arrays, {}, [result], pieces, "start")[result]
        np.testing.assert_array_equal(part, whole)
