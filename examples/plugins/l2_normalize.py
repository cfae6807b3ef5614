"""An op with a kernel in C: rows of Euclidean norm 1, on vectors, rows in parallel."""

from pathlib import Path

import numpy as np

from graphwright.plugins import (
    F32, Array, Context, CSource, Fact, Inference, Launch, Node, Op, TensorType, candidate, double_bits, op,
    product,
)  # fmt: skip

SOURCE = CSource.read(Path(__file__).with_name("l2_normalize.c"))


@op("L2Normalize")
class L2Normalize(Op):
    """``x / max(norm(x), epsilon)`` along the last axis."""

    epsilon: float = 1e-12

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if x.rank == 0:
            raise at.fail("a scalar has no last axis")
        return x.type

    def reference(self, x: Array) -> Array:
        norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
        return np.asarray(x / np.maximum(norm, self.epsilon), x.dtype)

    onnx = {
        ("L2Normalize", 1, "example"): lambda i: i.emit(L2Normalize(i.attr("epsilon", 1e-12)), i.input(0))
    }


@candidate(L2Normalize)
def l2_normalize(node: Node, context: Context) -> Launch | str:
    """Says how to call the C for a node, or why it cannot be: the op then runs on its reference."""
    x, y = node.operand(0), node.output
    if x.type.dtype is not F32:
        return f"the kernel computes f32, not {x.type.dtype}"
    *rows, columns = x.type.dims  # numbers, or symbols: one kernel serves every size
    return Launch(
        context.c_function(SOURCE, "l2_normalize"),
        operands=(x, y),
        writes=(1,),  # positions of the outputs
        args=(columns, double_bits(node.op.epsilon)),
        grid=product(rows),  # units that threads share out among them
    )
