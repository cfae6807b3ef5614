"""Contractions with following ops fused into the store of the kernel: no hook is generated, and results
agree.
"""

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
from graphwright.ir.types import F32, TensorType, tensor
from graphwright.kernels.gemm import candidates
from graphwright.low_ir.tasks import TaskGraph
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.activations import Gelu

N = symbol("N")
Build = Callable[..., Value]


def launches(build: Build, *types: TensorType) -> tuple[int, int]:
    """The numbers of tasks and of generated kernels of a small model, whose results are checked."""
    module = Module()
    b, values = new_main_graph(module, [(f"x{k}", type) for k, type in enumerate(types)])
    module.main.set_outputs([build(b, *values)], ["y"])
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal([evaluate(d, {"N": 5}) for d in t.dims]).astype(np.float32) for t in types]
    programs: list[Any] = []
    model = gw.compile(
        clone_module(module),
        options=Options(verify=True),
        observe=lambda name, product: programs.append(product.tasks) if name == "lower" else None,
    )
    kept = [feed.copy() for feed in feeds]
    for want, got in zip(evaluate_module(module, feeds), model(*feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert all(np.array_equal(feed, before) for feed, before in zip(feeds, kept, strict=True))
    (program,) = programs
    assert isinstance(program, TaskGraph)
    return len(program.tasks), sum(kernel.module == "generated" for kernel in program.kernels)


def weights(b: Builder, *shape: int) -> Any:
    return b.const(np.random.default_rng(1).standard_normal(shape), F32)


def number(b: Builder, value: float) -> Any:
    return b.const(value, F32)


def dense(b: Builder, x: Value) -> Any:
    return b(MatMul(), x, weights(b, 16, 40))


INLINE: dict[str, tuple[Build, tuple[TensorType, ...]]] = {
    "bias": (lambda b, x: b(Add(), dense(b, x), weights(b, 40)), (tensor(F32, N, 16),)),
    "scale, bias, residual, clip": (
        lambda b, x, r: b(
            Clip(-1.0, 1.5),
            b(Add(), r, b(Add(), b(Mul(), dense(b, x), number(b, 0.3)), weights(b, 40))),
        ),
        (tensor(F32, 2, N, 16), tensor(F32, 2, N, 40)),
    ),
    "residual of two runs' operands": (
        lambda b, x, y, r: b(Relu(), b(Add(), b(MatMul(), x, y), r)),
        (tensor(F32, 2, 3, N, 8), tensor(F32, 2, 3, 8, 7), tensor(F32, 2, 3, N, 7)),
    ),
    "residual that is an operand too": (
        lambda b, x: b(Add(), b(MatMul(), x, weights(b, 16, 16)), x), (tensor(F32, 30, 16),)
    ),
    "Gemm with a transposed constant": (
        lambda b, x: b(Relu(), b(Gemm(0.5, 2.0, trans_b=True), x, weights(b, 40, 16), weights(b, 40))),
        (tensor(F32, N, 16),),
    ),
    "a row vector": (
        lambda b, x: b(Relu(), b(Add(), dense(b, x), weights(b, 40))), (tensor(F32, 16),)
    ),
    "two vectors": (lambda b, x, y: b(Relu(), b(MatMul(), x, y)), (tensor(F32, 16), tensor(F32, 16))),
}  # fmt: skip


@pytest.mark.parametrize("name", INLINE)
def test_one_launch_of_the_library_alone(name: str) -> None:
    build, types = INLINE[name]
    assert launches(build, *types) == (1, 0)


HOOKED: dict[str, tuple[Build, tuple[TensorType, ...]]] = {
    "GELU": (lambda b, x: b(Gelu(), dense(b, x)), (tensor(F32, N, 16),)),
    "a bias per row of a column": (
        lambda b, x: b(Relu(), b(Add(), b(MatMul(), x, weights(b, 16)), weights(b, 5))),
        (tensor(F32, 2, 5, 16),),
    ),
    "a scale behind the bias": (
        lambda b, x: b(
            Mul(), b(Add(), dense(b, x), weights(b, 40)), number(b, 3.0)
        ),
        (tensor(F32, N, 16),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOOKED)
def test_one_launch_with_a_hook(name: str) -> None:
    build, types = HOOKED[name]
    assert launches(build, *types) == (1, 1)


def gated(b: Builder, x: Value) -> Value:
    """Two matrix multiplications with one left operand, and the ops that combine them."""
    rng = np.random.default_rng(0)
    first, second = (b(MatMul(), x, b.const(rng.normal(size=(7, 33)), F32)) for _ in range(2))
    made: Value = b(Add(), b(Mul(), b(Relu(), first), second), b.const(rng.normal(size=33), F32))
    return made


def test_two_products_of_one_left_factor_are_one_launch() -> None:
    assert launches(gated, tensor(F32, N, 7)) == (1, 1)


def test_two_products_that_no_kernel_takes_together_run_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_dual", lambda *_: "declined")
    assert launches(gated, tensor(F32, N, 7)) == (3, 1)
