"""C code that all kernels for packed weights share: sums, zero points and scales of a quantization block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Cells = Sequence[tuple[int, int]]
"""Pairs (row, vector) of the sums of a block. ``eR_V_C`` is the C name of chain C of such a sum."""
CHAINS: Final = 2
"""Each sum is split into this many chains of FMAs, which do not wait for one another. The number does not
depend on the rows, so that a row has the same result alone and with others.
"""


def middle(bits: int) -> int:
    """The code that means 0 if there are no zero points."""
    return 1 << (bits - 1)


def start_block(cells: Cells, chains: int) -> list[str]:
    """Declares the sums of a block."""
    names = ", ".join(f"e{r}_{v}_{chain} = {{0}}" for r, v in cells for chain in range(chains))
    return [f"        vf {names};"]


def subtract_zeros(cells: Cells, zeros: str) -> list[str]:
    """Subtracts ``zeros`` times the sums of A. ``zeros``: C code of the zero points of columns from ``at``
    on, with {} for the number of the vector.
    """
    return [
        *(f"            const vf d{v} = {zeros.format(v)};" for v in dict.fromkeys(v for _, v in cells)),
        *(f"            e{r}_{v}_0 -= d{v} * vf_set1(sums[{r} * q->blocks + b]);" for r, v in cells),
    ]


def add_scaled(cells: Cells, chains: int) -> list[str]:
    """Adds the sums of the block, times its scales, to the results."""
    return [
        *(
            f"        const vf s{v} = vf_load(q->scales + at + {v} * VL);"
            for v in dict.fromkeys(v for _, v in cells)
        ),
        *(f"        ACCUMULATE(c{r}_{v}_0, s{v}, {_sum_of_chains(r, v, chains)});" for r, v in cells),
    ]


def _sum_of_chains(row: int, vector: int, chains: int) -> str:
    return " + ".join(f"e{row}_{vector}_{chain}" for chain in range(chains))
