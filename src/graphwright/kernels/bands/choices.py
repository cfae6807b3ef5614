"""Alternatives for running a chain of known sizes: which parts run in bands, and the rows per band."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.kernels.bands.bands import MOST_STAGES, Stage
from graphwright.kernels.bands.benefit import rows_of_band
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

APART = "no bands"


@dataclass(frozen=True)
class BandedRange:
    """Stages ``begin`` to ``end`` of a chain, which run in bands of ``rows`` rows of the last result."""

    begin: int
    end: int
    rows: int

    def __str__(self) -> str:
        return f"{self.begin + 1} to {self.end} in bands of {self.rows}"


def alternatives_of(
    isa: Isa, stages: Sequence[Stage], predicted: Sequence[slice]
) -> dict[str, tuple[BandedRange, ...]]:
    """The alternatives by name, ``predicted`` first: no bands, all stages in bands, bands of half and twice
    as many rows.
    """
    chosen = [_banded(isa, stages, each.start, each.stop) for each in predicted]
    begins = range(0, len(stages) - 1, MOST_STAGES)
    every = [_banded(isa, stages, begin, min(begin + MOST_STAGES, len(stages))) for begin in begins]
    alternatives = (
        chosen,
        (),
        every,
        [_of_rows(stages, each, -(-each.rows // 2)) for each in chosen],
        [_of_rows(stages, each, 2 * each.rows) for each in chosen],
    )
    return {", ".join(map(str, each)) or APART: tuple(each) for each in alternatives}


def _banded(isa: Isa, stages: Sequence[Stage], begin: int, end: int) -> BandedRange:
    rows = rows_of_band(isa, stages[begin:end])
    assert isinstance(rows, int)
    return BandedRange(begin, end, rows)


def _of_rows(stages: Sequence[Stage], banded: BandedRange, rows: int) -> BandedRange:
    """``banded`` in bands of about ``rows`` rows, of nearly equal size."""
    height = stages[banded.end - 1].sizes.oh
    assert isinstance(height, int)
    count = -(-height // min(max(rows, 1), height))
    return BandedRange(banded.begin, banded.end, -(-height // count))
