"""Greedy non-maximum suppression: compares each box with vectors of the kept boxes of its class."""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import FLAG, GRID, Extent, arguments, dense, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

TOO_MANY_BOXES: Final = 4
"""The error code for more boxes than 32-bit indices can address."""
_PADDING: Final = 16
"""Elements past the end of a list in scratch: the f32 lanes of the widest vector, as whole vectors are read
and written.
"""
_COUNTERS: Final = 4096
"""The counters of a histogram or of a sort."""


CHOOSE_ABI: Final = Abi(
    "nms_choose",
    ("boxes", "scores", "most", "overlap", "least", "rows", "filled"),
    ("centered", "classes", "count", "limit"),
)
JOIN_ABI: Final = Abi("nms_join", ("filled", "rows", "total"), ("parts", "limit"))


@dataclass(frozen=True)
class Choose(KernelCall):
    """Selects up to ``limit`` boxes per batch and class, best first.

    Ties keep the order of the input, and NaN is the worst score. One class is one unit of the grid. The best
    boxes are sorted first, the rest only if these do not suffice; a histogram of the leading bits of sampled
    scores finds the threshold. Sorting is a radix sort by digits of 8 bits from the lowest one up (H. H.
    Seward, 1954).

    Operands:

    - boxes, f32[batches, count, 4], and scores, f32[batches, classes, count];
    - three scalars, each of which may be absent: the maximal number of boxes (i64, default 0), the allowed
      overlap (f32, default 0), and the score to exceed (f32);
    - the results: rows, i64[batches * classes * limit, 3], of which each class fills the first ones of its
      ``limit`` rows; and the number of rows that each class filled, i64[batches * classes].
    """

    SYMBOL: ClassVar[str] = "gw_nms_choose"

    centered: bool
    batches: Dim
    classes: Dim
    count: Dim
    limit: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return CHOOSE_ABI.values(
            centered=int(self.centered), classes=self.classes, count=self.count, limit=self.limit
        )

    @property
    def grid(self) -> Dim:
        """The number of units: classes of each image."""
        return self.batches * self.classes

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of counters, of two lists of candidates, and of 5 numbers per kept box."""
        padded = ceildiv(self.limit, _PADDING) * _PADDING + _PADDING
        return 4 * _COUNTERS + 2 * 8 * (self.count + _PADDING) + 5 * 4 * padded

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: a fixed part, and one step per box."""
        return predict(Work(cycles=self.grid * (4000 + 7 * self.count)), isa.machine)


@dataclass(frozen=True)
class Join(KernelCall):
    """Joins the rows that ``units`` filled. Operands: how many each filled, the rows, and their number."""

    SYMBOL: ClassVar[str] = "gw_nms_join"

    units: Dim
    limit: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return JOIN_ABI.values(parts=self.units, limit=self.limit)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds."""
        return predict(Work(cycles=70 * self.units), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access."""
    return _choose_extent(isa), _join_extent()


def _choose_extent(isa: Isa) -> Extent:
    a = arguments(*CHOOSE_ABI.args)
    choose = Choose(centered=False, batches=1, classes=a.classes, count=a.count, limit=a.limit)
    return Extent(
        Choose.SYMBOL,
        CHOOSE_ABI.args,
        CHOOSE_ABI.ordered(
            boxes=dense(4, ceildiv(GRID, a.classes), a.count, 4),
            scores=dense(4, GRID, a.count),
            most=dense(8, 1, optional=True),
            overlap=dense(4, 1, optional=True),
            least=dense(4, 1, optional=True),
            rows=dense(8, GRID, a.limit, 3),
            filled=dense(8, GRID),
        ),
        grid=GRID,
        scratch=choose.scratch_bytes(isa),
        bounds=within(FLAG, "centered"),
        at_least_0=(a.classes - 1,),
    )


def _join_extent() -> Extent:
    a = arguments(*JOIN_ABI.args)
    return Extent(
        Join.SYMBOL,
        JOIN_ABI.args,
        JOIN_ABI.ordered(filled=dense(8, a.parts), rows=dense(8, a.parts, a.limit, 3), total=dense(8, 1)),
        grid=GRID,
    )


def header(isa: Isa) -> str:
    """The generated header of ``non_max_suppression.c``."""
    return f"""{CHOOSE_ABI.c_text()}{JOIN_ABI.c_text()}
#define TOO_MANY_BOXES {TOO_MANY_BOXES}
#define PADDING {_PADDING} /* elements past the end of a list in scratch, for whole vectors */
#define COUNTERS {_COUNTERS} /* of a histogram or of a sort */
"""
