"""Alternatives for running a chain of known sizes: which parts run in bands, and the rows per band."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.kernels.bands.bands import MOST_STAGES, Stage
from graphwright.kernels.bands.benefit import rows_of_band
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

APART = "no bands"


@dataclass(frozen=True)
class Part:
    """Stages ``begin`` to ``end`` of a chain, which run in bands of ``rows`` rows of the last result."""

    begin: int
    end: int
    rows: int

    def __str__(self) -> str:
        return f"{self.begin + 1} to {self.end} in bands of {self.rows}"


def alternatives_of(
    isa: Isa, stages: Sequence[Stage], predicted: Sequence[slice]
) -> dict[str, tuple[Part, ...]]:
    """The alternatives by name, ``predicted`` first: no bands, all stages in bands, bands of half and twice
    as many rows.
    """
    parts = [_part(isa, stages, part.start, part.stop) for part in predicted]
    begins = range(0, len(stages) - 1, MOST_STAGES)
    every = [_part(isa, stages, begin, min(begin + MOST_STAGES, len(stages))) for begin in begins]
    alternatives = (
        parts,
        (),
        every,
        [_of_rows(stages, part, -(-part.rows // 2)) for part in parts],
        [_of_rows(stages, part, 2 * part.rows) for part in parts],
    )
    return {", ".join(map(str, each)) or APART: tuple(each) for each in alternatives}


def _part(isa: Isa, stages: Sequence[Stage], begin: int, end: int) -> Part:
    rows = rows_of_band(isa, stages[begin:end])
    assert isinstance(rows, int)
    return Part(begin, end, rows)


def _of_rows(stages: Sequence[Stage], part: Part, rows: int) -> Part:
    """``part`` in bands of about ``rows`` rows, of nearly equal size."""
    height = stages[part.end - 1].sizes.oh
    assert isinstance(height, int)
    count = -(-height // min(max(rows, 1), height))
    return Part(part.begin, part.end, -(-height // count))
