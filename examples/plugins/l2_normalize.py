"""An op with a kernel in C: normalizes rows to Euclidean norm 1, vectorized, with rows in parallel."""

from pathlib import Path

import numpy as np

import graphwright.plugins as gp

SOURCE = gp.CSource.read(Path(__file__).with_name("l2_normalize.c"))


@gp.op("L2Normalize")
class L2Normalize(gp.Op):
    """``x / max(norm(x), epsilon)`` along the last axis."""

    epsilon: float = 1e-12

    def infer(self, at: gp.Inference, x: gp.Fact) -> gp.TensorType:
        if x.rank == 0:
            raise at.fail("a scalar has no last axis")
        return x.type

    def reference(self, x: gp.Array) -> gp.Array:
        norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
        return np.asarray(x / np.maximum(norm, self.epsilon), x.dtype)

    onnx = gp.FromNode("L2Normalize", 1, "example")


L2Normalize.samples = (
    gp.Sample(L2Normalize(), (gp.arg(gp.F32, gp.symbol("N"), gp.symbol("M")),)),
    gp.Sample(L2Normalize(), (gp.arg(gp.F64, 3, 7),)),
    gp.Sample(L2Normalize(), (gp.arg(gp.F32),), error="a scalar has no last axis"),
)


@gp.candidate(L2Normalize)
def l2_normalize(node: gp.Node[L2Normalize], context: gp.Context) -> gp.Launch | str:
    """Returns how to launch the C function for a node, or why not: the op then runs on its reference."""
    op, x, y = node.op, node.operand(0), node.output
    if x.type.dtype is not gp.F32:
        return f"the kernel computes f32, not {x.type.dtype}"
    *rows, columns = x.type.dims  # numbers, or symbols: one kernel serves every size
    return gp.Launch(
        context.c_function(SOURCE, "l2_normalize"),
        operands=(x, y),
        writes=(1,),  # positions of the outputs
        args=(columns, gp.double_bits(op.epsilon)),
        grid=gp.product(rows),  # units that threads share out among them
    )
