"""Makers of bf16 arithmetic between casts, because neither NumPy nor ONNX Runtime's Python API passes bf16
arrays.
"""

from __future__ import annotations

from onnx import TensorProto

from .draft import Draft, Value
from .makers import listed, makes

UNARY = listed("Abs Neg Relu Sigmoid Tanh Sqrt Exp Erf Ceil Floor Reciprocal Softplus Identity Sign")
BINARY = listed("Add Sub Mul Div Max Min Pow Less Equal")
SINCE = 13


def narrow(g: Draft, value: Value) -> Value:
    made: Value = g.node("Cast", [value], to=TensorProto.BFLOAT16)[0]
    return made


def widen(g: Draft, value: Value) -> None:
    g.node("Cast", [value], to=TensorProto.FLOAT)


@makes("Bfloat16")
def bfloat16(g: Draft, _: str) -> None:
    """A node of some op in bf16."""
    if g.opset < SINCE:
        return
    g.pick(unary, binary, matmul, rows)(g)


def unary(g: Draft) -> None:
    x = g.fresh("float32", g.dims(g.pick(0, 1, 2, 3)))
    (made,) = g.node(g.pick(*UNARY), [narrow(g, x)])
    widen(g, made)


def binary(g: Draft) -> None:
    x = g.fresh("float32", g.dims(g.pick(0, 1, 2, 3)))
    (made,) = g.node(g.pick(*BINARY), [narrow(g, x), narrow(g, g.partner(x))])
    widen(g, made)


def matmul(g: Draft) -> None:
    m, k, n = g.dim(), g.dim(), g.dim()
    a, b = g.fresh("float32", [m, k]), g.fresh("float32", [g.twin(k), n])
    (made,) = g.node(g.pick("MatMul", "Gemm"), [narrow(g, a), narrow(g, b)])
    widen(g, made)


def rows(g: Draft) -> None:
    x = narrow(g, g.fresh("float32", g.dims(g.pick(1, 2, 3))))
    (made,) = g.node(g.pick("Softmax", "ReduceSum", "ReduceMax", "ReduceMean", "Transpose"), [x])
    widen(g, made)
