"""Decides which chains are faster in bands, and how many rows a band has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphwright.cost.images import BAND_CALL_NS, intermediate_image_ns
from graphwright.ir.symbols import Dim, ceildiv, evaluate, floordiv, maximum, minimum
from graphwright.kernels.bands import bands
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

RING_SHARE: Final = 80
"""The percentage of the L2 cache that the ring buffers of a band may take."""
_MARGIN: Final = 3
"""The percentage of a chain's time that bands must save at least."""


@dataclass(frozen=True)
class Costed:
    """A stage, and its time for all rows in nanoseconds on one core."""

    stage: bands.Stage
    work: Dim

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """All sizes that the costs depend on."""
        return (*self.stage.args, self.work)

    def with_sizes(self, values: Mapping[str, int]) -> Costed:
        """The same with the values of all symbols: arithmetic on numbers is many times as fast."""
        *args, work = (evaluate(size, values) for size in self.sizes)
        return Costed(replace(self.stage, args=tuple(args)), work)


def rows_of_band(isa: Isa, stages: Sequence[bands.Stage]) -> Dim:
    """Rows of the last result per band: as many as the ring buffers may hold, nearly equal in all bands."""
    room = isa.machine.l2.bytes * RING_SHARE // 100
    one, two = (bands.ring_bytes(isa, stages, rows) for rows in (1, 2))
    rows = 1 + maximum(0, floordiv(room - one, maximum(1, two - one)))
    height = maximum(1, stages[-1].sizes.oh)
    return ceildiv(height, ceildiv(height, minimum(rows, height)))


def worth_banding(isa: Isa, forms: Sequence[Sequence[Costed]]) -> list[slice]:
    """The parts of a chain that should run in bands: the disjoint ones that save the most time in total.
    ``forms``: the chain with numbers for all sizes, once for each guess of unknown ones; the first guess for
    which a part saves time counts. The search is dynamic programming over the ends of parts.
    """
    best: list[tuple[int, list[slice]]] = [(0, [])] * 2  # for the first 0, 1, ... stages
    for end in range(2, len(forms[0]) + 1):
        found = [best[-1]]
        for begin in range(max(0, end - bands.MOST_STAGES), end - 1):
            before, parts = best[begin]
            gains = (evaluate(saved_ns(isa, form[begin:end]), {}) for form in forms)
            saved = next((gain for gain in gains if gain > 0), 0)
            found.append((before + saved, [*parts, slice(begin, end)]) if saved > 0 else best[begin])
        best.append(max(found, key=lambda pair: pair[0]))
    return best[-1][1]


def saved_ns(isa: Isa, part: Sequence[Costed]) -> Dim:
    """The nanoseconds on one core that bands save for a part of a chain; not positive if bands do not pay
    off.
    """
    stages = [costed.stage for costed in part]
    images = stages[0].sizes.images
    saved: Dim = sum(
        (images * intermediate_image_ns(_bytes(isa, stage), isa.machine) for stage in stages[:-1]), 0
    )
    calls = images * bands.calls(stages, rows_of_band(isa, stages))
    work: Dim = sum((costed.work for costed in part), 0)
    return saved - BAND_CALL_NS * calls - ceildiv(_MARGIN * work, 100)


def _bytes(isa: Isa, stage: bands.Stage) -> Dim:
    """The bytes of one image of the result."""
    return stage.blocks(isa.lanes) * stage.sizes.oh * stage.sizes.ow * isa.vector_bytes
