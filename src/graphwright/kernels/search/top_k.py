"""TopK: the k largest or smallest elements of each row, sorted.

A pass over the row keeps the elements above the k-th best so far. If these become too many, a radix selection
cuts them to the k best and keeps their order. At the end, they are sorted by a radix sort from the lowest
digit up, which is stable (Knuth, "The Art of Computer Programming", vol. 3, section 5.2.5). Short rows are
ranked several at once, one in each lane of vectors, by k passes of a bubble sort (section 5.2.2).
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import FLAG, GRID, Extent, Reach, arguments, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_SPARE: Final = 256
"""The least space in addition to the k best elements: with more space, others are discarded less often."""
_COLUMN_BYTES: Final = 2**18
"""The space for copies of strided rows: several that share cache lines are copied at once."""

_SHORT: Final = 64
"""The most elements of rows that are ranked in lanes."""
_SHORT_STEPS: Final = 512
"""The most steps of their passes: elements times k."""


class Kind(IntEnum):
    """How the bits of an element are compared."""

    UNSIGNED = 0
    SIGNED = 1
    FLOAT = 2


ABI: Final = Abi("top_k", ("x", "values", "indices"), ("kind", "code", "largest", "count", "inner", "k"))


@dataclass(frozen=True)
class TopK(KernelCall):
    """Per row, the ``k`` largest (or smallest) of ``count`` elements, best first.

    Ties keep the order of the input. Operands: x, values, indices (int64). NaN is larger than all numbers,
    and -0 equals 0. A row is one unit of the grid: ``x[outer, :, inner]`` of a dense [outer, count, inner].
    An ``element_size`` of 3 means bf16.
    """

    SYMBOL: ClassVar[str] = "gw_top_k"

    kind: Kind
    element_size: int
    largest: bool
    outer: Dim
    count: Dim
    inner: Dim
    k: Dim

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return ABI.values(
            kind=int(self.kind),
            code=self.element_size,
            largest=int(self.largest),
            count=self.count,
            inner=self.inner,
            k=self.k,
        )

    @property
    def grid(self) -> Dim:
        """The number of units: rows."""
        return self.outer * self.inner

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of copied rows, of a key and an index for each kept element, and of a second buffer for
        sorting.
        """
        return _scratch(self.inner, self.k)

    @property
    def _is_short(self) -> bool:
        if not isinstance(self.count, int) or not isinstance(self.k, int) or self.element_size > 4:
            return False
        return self.count <= _SHORT and self.count * self.k <= _SHORT_STEPS

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: a scan of the row, which is slow if its elements
        are strided, and a sort.
        """
        rows = self.outer * self.inner
        if self._is_short:
            steps = floordiv(4 * self.count * self.k, isa.lanes)
            return predict(Work(cycles=rows * (steps + 2 * self.count + 3 * self.k)), isa.machine)
        scan = self.count * (1 if self.inner == 1 else 5) + floordiv(self.count, 2)
        return predict(Work(cycles=rows * (scan + 80 * self.k)), isa.machine)


def _scratch(inner: Dim, k: Dim) -> Dim:
    return minimum(maximum(inner - 1, 0), 1) * _COLUMN_BYTES + 2 * 16 * (k + maximum(k, _SPARE))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_top_k`` accesses."""
    a = arguments(*ABI.args)
    size = a.code - floordiv(a.code % 4, 3)  # code 3 is bf16
    outer = ceildiv(GRID, a.inner)
    return (
        Extent(
            TopK.SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(size, ((outer, a.count * a.inner), (a.count * a.inner, 1), (a.k, 0))),
                values=Reach(size, ((outer, a.k * a.inner), (a.k * a.inner, 1))),
                indices=Reach(8, ((outer, a.k * a.inner), (a.k * a.inner, 1))),
            ),
            grid=GRID,
            scratch=_scratch(a.inner, a.k),
            bounds=within(FLAG, "largest"),
            choices={"kind": (0, 1, 2), "code": (1, 2, 3, 4, 8)},
            at_least_0=(a.inner - 1, a.count - a.k),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``top_k.c``."""
    kinds = ", ".join(f"{kind.name} = {kind.value}" for kind in Kind)
    constants = {"SPARE": _SPARE, "COLUMN_BYTES": _COLUMN_BYTES, "SHORT": _SHORT, "SHORT_STEPS": _SHORT_STEPS}
    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return f"{ABI.c_text()}enum {{ {kinds} }};\n{defines}"
