"""Fourier transforms of f32 rows whose length is a product of small factors.

A row of n1 * n2 elements is viewed as a matrix. Columns of length n1 are transformed, multiplied by the
twiddle factors and transposed; then columns of length n2 are transformed (W. M. Gentleman and G. Sande, "Fast
Fourier transforms: for fun and profit", 1966). Each lane of a vector is a column. Columns pass through
Stockham's autosorting stages of radix 2 to 7 (C. Van Loan, "Computational Frameworks for the Fast Fourier
Transform", 1992). The inverse transform is the forward one with real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, floordiv, maximum, minimum, product
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import GRID, Extent, Reach, arguments, dense, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.library.transpose import transpose
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_fft_f32"
RADICES: Final = (4, 2, 3, 5, 7)
MIN_SIDE: Final = 16
"""The shortest side: columns are processed in whole vectors."""
_MAX_SIDE: Final = 1024
_MAX_STAGES: Final = 10


def sides(length: int) -> tuple[int, int] | None:
    """Both sides of the matrix of a row, as equal as possible; None if the length has no such factors."""
    if length < 1 or math.prod(stages(length)) != length:
        return None
    for side in range(math.isqrt(length), MIN_SIDE - 1, -1):
        if length % side == 0 and length // side <= _MAX_SIDE:
            return side, length // side
    return None


def stages(length: int) -> list[int]:
    """The radix of each stage."""
    found = []
    for radix in RADICES:
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return found


def table(length: int, inverse: bool) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The twiddle factors of all stages of both sides, then the real and imaginary parts of those between the
    sides.
    """
    first, second = sides(length) or (1, length)
    twiddles = np.exp(-2j * np.pi * np.outer(np.arange(first), np.arange(second)) / length)
    twiddles = twiddles / length if inverse else twiddles
    parts = [*_stage_factors(first), *_stage_factors(second), twiddles.real.ravel(), twiddles.imag.ravel()]
    return np.concatenate(parts).astype(np.float32)


def _stage_factors(side: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """For each p of a stage, the powers 1 to radix - 1 of its factor, as pairs."""
    for radix in stages(side):
        powers = np.outer(np.arange(side // radix), np.arange(1, radix))
        factors = np.exp(-2j * np.pi * powers / side)
        yield np.stack([factors.real, factors.imag], axis=-1).ravel()
        side //= radix


_SIDES: Final = {"n1": "first", "n2": "second"}
ABI: Final = Abi(
    "fft",
    ("x", "table", "y"),
    ("dim", "used", "length", "parts", "bins", "inverse", *_SIDES, "stages first", "stages second"),
    {"stages": ("count", f"radix[{_MAX_STAGES}]")},
)


@dataclass(frozen=True)
class Fft(KernelCall):
    """The first ``bins`` elements y[row, bin, 2] of the transform of x[row, used of dim, parts].

    Rows are padded with zeros to ``length``. Operands: x, :func:`table`, y.
    """

    rows: Dim
    dim: int
    length: int
    parts: int
    bins: int
    inverse: bool

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        first, second = sides(self.length) or (1, self.length)
        return ABI.values(
            dim=self.dim,
            used=min(self.dim, self.length),
            length=self.length,
            parts=self.parts,
            bins=self.bins,
            inverse=int(self.inverse),
            n1=first,
            n2=second,
            first=_listed(first),
            second=_listed(second),
        )

    @property
    def grid(self) -> Dim:
        """The number of units: rows."""
        return self.rows

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of two rows and of two blocks of columns, with real and imaginary parts."""
        return 4 * (4 * (self.length + 64) + 4 * (_MAX_SIDE + 4) * isa.lanes)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: one cycle per element for each pass of radix 2."""
        return predict(Work(cycles=self.rows * self.length * self.length.bit_length()), isa.machine)


def _listed(side: int) -> tuple[int, ...]:
    """The number of stages of a side, and their radices."""
    radices = stages(side)
    return len(radices), *radices, *[0] * (_MAX_STAGES - len(radices))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses. The radices of each side are those of :func:`stages`."""
    a = arguments(*ABI.args)
    factors: Dim = 2 * a.length
    multiples: list[Dim] = [a.n1 * a.n2 - a.length]
    at_least_0: list[Dim] = [a.dim - a.used, a.length - a.used, a.length - a.bins]
    for side, listed in _SIDES.items():
        radices = [getattr(a, f"{listed}_radix{k}") for k in range(_MAX_STAGES)]
        rest, count = getattr(a, side), getattr(a, f"{listed}_count")
        for radix, following in zip(radices, [*radices[1:], 0], strict=True):
            at_least_0.append(minimum(radix, 1) - minimum(following, 1))
            rest = floordiv(rest, maximum(radix, 1))
            factors = factors + 2 * (maximum(radix, 1) - 1) * rest
        taken = [minimum(radix, 1) for radix in radices]
        multiples += [rest - 1, sum(taken, start=-count)]
        multiples.append(product([maximum(radix, 1) for radix in radices]) - getattr(a, side))
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, ((GRID, a.dim * a.parts), (a.used * a.parts, 1))),
                table=dense(4, factors),
                y=dense(4, GRID, a.bins, 2),
            ),
            grid=GRID,
            scratch=4 * (4 * (a.length + 64) + 4 * (_MAX_SIDE + 4) * isa.lanes),
            bounds=within((MIN_SIDE, _MAX_SIDE), *_SIDES),
            choices={"parts": (1, 2)}
            | {f"{listed}_radix{k}": (0, *RADICES) for listed in _SIDES.values() for k in range(_MAX_STAGES)},
            multiples=tuple(multiples),
            at_least_0=tuple(at_least_0),
        ),
    )


def _stage(radix: int) -> str:
    loads = [
        f"const vf {n}{j} = vf_load(x{n[-1]} + (q + s * (p + m * {j})) * VL);"
        for j in range(radix)
        for n in ("r", "i")
    ]
    lines = {2: _TWO, 4: _FOUR}.get(radix) or _odd(radix)
    stores = []
    for t in range(radix):
        at = f"(q + s * ({radix} * p + {t})) * VL"
        real, imaginary = f"yr{t}", f"yi{t}"
        if t:
            real, imaginary = f"yr{t} * wr{t} - yi{t} * wi{t}", f"yr{t} * wi{t} + yi{t} * wr{t}"
        stores += [f"vf_store(yr + {at}, {real});", f"vf_store(yi + {at}, {imaginary});"]
    factors = [
        f"const vf w{n}{t} = vf_set1(w[{2 * (radix - 1)} * p + {2 * (t - 1) + k}]);"
        for t in range(1, radix)
        for k, n in enumerate("ri")
    ]
    return "\n".join(
        [
            f"static void stage_{radix}(int64_t m, int64_t s, const float *w, const float *xr,",
            "                    const float *xi, float *yr, float *yi) {",
            "    for (int64_t p = 0; p < m; p++) {",
            *(f"        {line}" for line in factors),
            "        for (int64_t q = 0; q < s; q++) {",
            *(f"            {line}" for line in (*loads, *lines, *stores)),
            "        }",
            "    }",
            "}",
        ]
    )


_TWO: Final = [
    f"const vf y{n}0 = {n}0 + {n}1, y{n}1 = {n}0 - {n}1;" for n in "ri"
]  # fmt: skip
_FOUR: Final = [
    *(
        f"const vf {n}a = {n}0 + {n}2, {n}b = {n}0 - {n}2, {n}c = {n}1 + {n}3, {n}d = {n}1 - {n}3;"
        for n in "ri"
    ),
    *(f"const vf y{n}0 = {n}a + {n}c, y{n}2 = {n}a - {n}c;" for n in "ri"),
    "const vf yr1 = rb + id, yi1 = ib - rd, yr3 = rb - id, yi3 = ib + rd;",
]


def _odd(radix: int) -> list[str]:
    """Elements j and radix - j share products."""
    half = range(1, radix // 2 + 1)
    lines = [
        f"const vf {n}s{j} = {n}{j} + {n}{radix - j}, {n}d{j} = {n}{j} - {n}{radix - j};"
        for j in half
        for n in "ri"
    ]
    lines += [f"const vf y{n}0 = {n}0 + {' + '.join(f'{n}s{j}' for j in half)};" for n in "ri"]
    for t in half:
        turn = [2 * math.pi * (j * t % radix) / radix for j in half]
        for n in "ri":
            even = " + ".join(f"{math.cos(a)!r}f * {n}s{j}" for j, a in zip(half, turn, strict=True))
            odd = " + ".join(f"{math.sin(a)!r}f * {n}d{j}" for j, a in zip(half, turn, strict=True))
            lines += [f"const vf {n}e{t} = {n}0 + {even};", f"const vf {n}o{t} = {odd};"]
        lines += [
            f"const vf yr{t} = re{t} + io{t}, yr{radix - t} = re{t} - io{t};",
            f"const vf yi{t} = ie{t} - ro{t}, yi{radix - t} = ie{t} + ro{t};",
        ]
    return lines


def header(isa: Isa) -> str:
    """The generated header of ``fft.c``."""
    return "\n".join([ABI.c_text(), transpose(isa), *(_stage(radix) for radix in RADICES)])
