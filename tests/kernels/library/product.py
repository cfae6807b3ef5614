"""Matrix multiplications that tests build."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.kernels.gemm import gemm, problem
from graphwright.kernels.library.bits import single_bits
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.harness import Array, load, strided
from tests.kernels.library.packing import gemm_panels
from tests.kernels.library.prepared import PreparedKernel

LAYOUTS = {
    "dense": ((0, 1, 2, 3), 0, 1),
    "heads": ((0, 2, 1, 3), 3, 1),
    "transposed": ((1, 0, 3, 2), 5, 1),
    "columns": ((0, 1, 3, 2), 0, 1),
    "scattered": ((0, 1, 2, 3), 1, 2),
}


CLIP = (-0.75, 1.5)


class Product(PreparedKernel):
    """``act(scale * a @ b + bias + residual)`` of 4-D operands, laid out and ready to run."""

    def __init__(
        self, isa: Isa, a: Any, b: Any, bias: Any = None, residual: Any = None, *, packed: bool = False,
        act: int = 0, scale: float = 1.0, layout: str = "dense", side: str = "end",
    ) -> None:  # fmt: skip
        batch = np.broadcast_shapes(a.shape[:2], b.shape[:2])
        m, k, n = a.shape[2], a.shape[3], b.shape[3]
        order, gap, step = LAYOUTS[layout]

        def lay(x: Any, *how: Any) -> tuple[Array, list[int]]:
            view, strides = strided(x, *how)
            return view, [0 if size == 1 else stride for size, stride in zip(x.shape, strides, strict=True)]

        a, a_strides = lay(a, order, gap, side, step)
        self.c, c_strides = lay(np.zeros((*batch, m, n)), order, gap, side, step)
        if packed:
            b, b_strides = lay(gemm_panels(b, problem.panel_columns(isa)), range(5), 0, side)
            b_strides = [*b_strides[:2], 0, 0]
        else:
            b, b_strides = lay(b, order, gap, side, step)
        bias_strides, r_strides = [0, 0], [0, 0, 0, 0]
        if bias is not None:
            bias, bias_strides = lay(bias, (0, 1), 0, side)
        if residual is not None:
            residual, r_strides = lay(residual, order, gap + 1, side, step)
        self.args = problem.GemmArgs(
            *batch, m, n, k, *a_strides, *b_strides, *bias_strides, *c_strides, *r_strides,
            act, *map(single_bits, CLIP), single_bits(scale),
        )  # fmt: skip
        self.operands = [a, b, bias, residual, self.c]
        self.kernel = load(gemm, isa)[gemm.PACKED if packed else gemm.UNPACKED]
        self.grid = problem.grid(isa, self.args)
        self.scratch = problem.scratch_bytes(isa, self.args, packed=packed)

    def run(self, chunks: list[tuple[int, int]] | None = None) -> Array:
        return self.launch(chunks).copy()

    def run_hooked(self) -> Array:
        _, _, m, n = self.c.shape
        return self.hooked(self.c.size // (m * n), m, n).reshape(self.c.shape)
