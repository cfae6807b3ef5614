"""How many launches a piece of a model becomes, and that they compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.clone import clone_module
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Module, Value
from graphwright.ir.symbols import evaluate, symbol
from graphwright.ir.types import BOOL, F16, F32, TensorType, tensor
from graphwright.low_ir.tasks import TaskGraph, TaskKind
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import HardSwish, Neg, Not, Relu, Sigmoid
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import Gelu
from graphwright.ops.nn.batch_normalization import BatchNormalization
from graphwright.ops.nn.conv import Conv
from graphwright.ops.nn.layer_normalization import LayerNormalization, RMSNormalization
from graphwright.ops.nn.softmax import LogSoftmax, Softmax

N = symbol("N")
SIZES = {"N": 5}
Build = Callable[..., Value | tuple[Value, ...]]


def compiled(build: Build, *types: TensorType) -> TaskGraph:
    """The tasks of a small model, after checking its results."""
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", type) for k, type in enumerate(types)])
    built = build(b, *values)
    outputs = built if isinstance(built, tuple) else (built,)
    module.main.set_outputs(outputs, [f"y{k}" for k in range(len(outputs))])
    rng = np.random.default_rng(0)
    feeds = [
        np.asarray(rng.normal(size=[evaluate(d, SIZES) for d in t.dims])).astype(t.dtype.numpy) for t in types
    ]
    programs: list[Any] = []
    model = gw.compile(
        clone_module(module),
        options=Options(verify=True),
        observe=lambda name, product: programs.append(product.tasks) if name == "lower" else None,
    )
    for want, got in zip(evaluate_module(module, feeds), model(*feeds), strict=True):
        tolerance = 1e-2 if want.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    (program,) = programs
    assert isinstance(program, TaskGraph)
    return program


def weights(b: Builder, *shape: int) -> Any:
    return b.const(np.random.default_rng(1).normal(size=shape), F32)


def conv_block(b: Builder, x: Value, residual: Value) -> Value:
    y = b(Conv(pads=(1, 1, 1, 1)), x, weights(b, 8, 8, 3, 3))
    statistics = [b.const(np.random.default_rng(k).uniform(0.5, 2, 8), F32) for k in range(4)]
    y = b(HardSwish(), b(BatchNormalization(), y, *statistics))
    made: Value = b(Add(), y, residual)
    return made


def gemm_gelu(b: Builder, x: Value) -> Value:
    made: Value = b(Gelu(), b(Add(), b(MatMul(), x, weights(b, 16, 24)), weights(b, 24)))
    return made


def with_reshape(b: Builder, x: Value) -> Value:
    made: Value = b(Relu(), b(Reshape((N, 6)), b(Sigmoid(), b(Mul(), x, weights(b, 2, 1)))))
    return made


ONE_LAUNCH: dict[str, tuple[Build, tuple[TensorType, ...]]] = {
    "softmax": (lambda b, x: b(Softmax(), x), (tensor(F32, N, 33),)),
    "softmax of all lengths": (lambda b, x: b(Softmax(), x), (tensor(F32, 3, N),)),
    "softmax over a middle axis": (lambda b, x: b(Softmax(1), x), (tensor(F32, 2, 5, 300),)),
    "softmax over one row": (lambda b, x: b(Softmax(), x), (tensor(F32, 33),)),
    "log softmax": (lambda b, x: b(LogSoftmax(), x), (tensor(F32, N, 33),)),
    "softmax in f16": (lambda b, x: b(Softmax(), x), (tensor(F16, N, 33),)),
    "layer norm": (
        lambda b, x, s, t: b(LayerNormalization(), x, s, t),
        (tensor(F32, N, 33), tensor(F32, 33), tensor(F32, 33)),
    ),
    "RMS norm": (lambda b, x, s: b(RMSNormalization(), x, s), (tensor(F32, N, 33), tensor(F32, 33))),
    "RMS norm in f16": (lambda b, x, s: b(RMSNormalization(), x, s), (tensor(F16, N, 33), tensor(F16, 33))),
    "mean of all": (lambda b, x: b(ReduceMean(None, keepdims=False), x), (tensor(F32, N, 3, 4),)),
    "conv, norm, activation, residual": (conv_block, (tensor(F32, 1, 8, 6, 6), tensor(F32, 1, 8, 6, 6))),
    "GEMM, bias, GELU": (gemm_gelu, (tensor(F32, N, 16),)),
    "elementwise across a reshape": (with_reshape, (tensor(F32, N, 2, 3),)),
    "scalars": (lambda b, x: b(Relu(), b(Sigmoid(), x)), (tensor(F32),)),
    "two results of one chain": (lambda b, x: (y := b(Sigmoid(), x), b(Relu(), y)), (tensor(F32, N),)),
}


@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_a_fused_node_is_one_launch(name: str) -> None:
    build, types = ONE_LAUNCH[name]
    assert [task.kind for task in compiled(build, *types).tasks] == [TaskKind.LAUNCH]


def test_the_residual_of_a_conv_may_be_made_in_its_epilogue_and_be_an_output() -> None:
    def build(b: Builder, x: Value) -> tuple[Value, Value]:
        residual = b(Sigmoid(), x)
        return conv_block(b, x, residual), residual

    assert len(compiled(build, tensor(F32, 1, 8, 6, 6)).tasks) == 1


def test_views_and_dense_slices_cost_no_task() -> None:
    def build(b: Builder, x: Value) -> Value:
        part = b(Slice((2,), (4,), (0,), (1,)), b(Relu(), x))
        made: Value = b(Softmax(), b(Reshape((6, 2)), part))
        return made

    assert len(compiled(build, tensor(F32, 5, 6)).tasks) == 2


def test_concatenated_parts_are_made_in_their_slot() -> None:
    def build(b: Builder, x: Value, y: Value) -> Value:
        parts = b(MatMul(), x, weights(b, 3, 3)), b(Softmax(), y)
        made: Value = b(Concat(0), *parts)
        return made

    tasks = compiled(build, tensor(F32, 4, 3), tensor(F32, 2, 3)).tasks
    assert [task.kind for task in tasks] == [TaskKind.LAUNCH] * 2


def test_a_scalar_result_next_to_an_empty_one_is_computed() -> None:
    """One region with both would have a loop without iterations."""

    def build(b: Builder, flag: Value, x: Value, y: Value) -> tuple[Value, Value]:
        turned = b(Not(), flag)
        return b(Where(), turned, x, y), turned

    compiled(build, tensor(BOOL), tensor(F32, 0), tensor(F32, 0))


def test_a_kernel_of_two_results_does_not_overwrite_what_it_reads_again() -> None:
    def build(b: Builder, x: Value) -> tuple[Value, Value]:
        reverse = Slice((-1,), (-(2**62),), (0,), (-1,))
        y = b(reverse, x)
        negative = b(Neg(), y)
        return b(reverse, negative), b(Mul(), y, negative)

    compiled(build, tensor(F32, 4, 4))


def test_the_same_value_twice_in_one_launch_is_not_overwritten_in_place() -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b(Softmax(), x)
        made: Value = b(MatMul(), b(Add(), y, y), y)
        return made

    compiled(build, tensor(F32, 4, 4))
