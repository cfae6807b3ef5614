"""C code that all kernels for packed weights share: zero points and scales of a quantization block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cells = Sequence[tuple[int, int]]
"""Pairs (row, vector) of the sums ``eR_V`` of a block."""


def subtract_zeros(cells: Cells, vectors: Iterable[int], middle: str) -> list[str]:
    """Subtracts the zero points times the sums of A. ``middle`` is the code of 0 without zero points."""
    return [
        "        if (q->zeros) {",
        *(f"            const vf d{v} = zeros_at(q, at + {v} * VL, {middle});" for v in vectors),
        *(f"            e{r}_{v} -= d{v} * vf_set1(sums[{r} * q->blocks + b]);" for r, v in cells),
        "        }",
    ]


def add_scaled(cells: Cells, vectors: Iterable[int]) -> list[str]:
    """Adds the sums of the block, times its scales, to the results."""
    return [
        *(f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);" for v in vectors),
        *(f"        ACCUMULATE(c{r}_{v}_0, s{v}, e{r}_{v});" for r, v in cells),
    ]
