"""Runs a chain of convolutions in channel blocks band by band: intermediate images stay in the cache.

A unit of the grid is a few bands of rows of the last result. For each band, each stage computes the rows that
the next stage reads, by calling the library kernel with fewer rows. Each intermediate image has a ring buffer
in scratch for these rows. Consecutive bands of a thread overlap: rows that the next band reads again are
moved to the front of the ring buffer, so that each row is computed once. Fusing layers by overlapping bands:
Alwani et al., "Fused-layer CNN accelerators", 2016; sliding windows: Ragan-Kelley et al., "Halide", 2013.
Kernels sum each pixel in the same order for any number of rows, so bands change no bits. An exception are
direct convolutions of rows so short that some tiles have few pixels (:func:`is_bit_identical`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from graphwright.cost.machine import FMA_SUMS
from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum
from graphwright.kernels.conv import blocked_depthwise, direct
from graphwright.kernels.conv.arguments import Convolution2dArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import Extent, ExtentInC
from graphwright.kernels.library.windows import window_span
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_bands"
MOST_STAGES: Final = 8
_UNITS: Final = 8
"""The wanted units per image, for several threads. More units cost time: the rows shared by two bands are
computed twice at each start of a unit.
"""
MOST_ARGS: Final = 64
MOST_OPERANDS: Final = 32
"""The most operands of a stage, including those of its hook."""

ABI: Final = Abi("bands", (), ("args", "stages", "rows", "unit", "scratch"))
"""``args``: the number of all arguments; ``rows``: rows of the last result per band; ``unit``: bands per unit
of the grid; ``scratch``: bytes for the stage that needs the most. Then, for each stage, follow :data:`STAGE`,
the arguments of its kernel for all rows, and those of its hook. The operands are those of all stages,
including hooks; intermediate images are absent.
"""
STAGE: Final = Abi("stage", (), ("kind", "args", "operands", "result", "pixels", "images"))
"""``kind``: the position in :data:`KINDS`; ``args`` and ``operands``: their numbers; ``result`` and
``pixels``: for a hook that writes an intermediate image, this operand and the argument with its number of
pixels, else -1; ``images``: a bit mask of the hook's operands that are images of the result's shape.
"""


@dataclass(frozen=True)
class Kind:
    """A kernel that can be a stage. ``scratch``: bytes that suffice for any number of rows up to that in its
    args.
    """

    symbol: str
    abi: Abi
    args: Callable[..., Convolution2dArgs]
    scratch: Callable[[Isa, Any], Dim]
    is_depthwise: bool = False


KINDS: Final = (
    Kind(direct.SYMBOL, direct.ABI, direct.DirectArgs, direct.most_scratch_bytes),
    Kind(
        blocked_depthwise.SYMBOL,
        blocked_depthwise.ABI,
        blocked_depthwise.BlockedDepthwiseArgs,
        blocked_depthwise.scratch_bytes,
        is_depthwise=True,
    ),
)
"""The kernels that can be stages."""
_PAD: Final = 5
"""Padding between channel blocks in a ring buffer, in pixels: it spreads rows over the sets of the caches."""
_NAMES: Final = (
    *("images", "groups", "cin", "cout", "h", "w", "oh", "ow", "kh", "stride_h", "pad_top", "dilation_h"),
    *("x_n", "x_c", "x_h", "r_n", "r_h", "y_n", "y_c", "y_h", "y_lanes"),
)
"""The arguments that the driver reads or replaces."""
_OPERANDS: Final = ("x", "residual", "y")


@dataclass(frozen=True)
class Stage:
    """One convolution of a chain: the arguments of its kernel for all rows, then those of its hook."""

    kind: int
    args: tuple[Dim, ...]
    operands: int
    result: int = -1
    pixels: int = -1
    images: int = 0

    @property
    def sizes(self) -> Convolution2dArgs:
        """The arguments of the kernel, by name."""
        kind = KINDS[self.kind]
        return kind.args(*self.args[: len(kind.abi.args)])

    def blocks(self, lanes: int) -> Dim:
        """The number of channel blocks of the result."""
        return self._blocks(self.sizes.cout, lanes)

    def _blocks(self, channels: Dim, lanes: int) -> Dim:
        """The blocks for ``channels`` channels in each group."""
        if KINDS[self.kind].is_depthwise:
            return ceildiv(self.sizes.groups, lanes)
        return self.sizes.groups * ceildiv(channels, lanes)

    def image_written(self, lanes: int) -> tuple[Dim, ...]:
        """The dims of the result: images, channel blocks, rows, columns."""
        sizes = self.sizes
        return sizes.images, self.blocks(lanes), sizes.oh, sizes.ow

    def image_read(self, lanes: int) -> tuple[Dim, ...]:
        """The dims of the input, ordered like those of :meth:`image_written`."""
        sizes = self.sizes
        return sizes.images, self._blocks(sizes.cin, lanes), sizes.h, sizes.w

    def rows_read(self, rows: Dim) -> Dim:
        """The most input rows that ``rows`` rows of the result read."""
        sizes = self.sizes
        return minimum(sizes.h, window_span(rows, sizes.stride_h, sizes.kh, sizes.dilation_h))


def is_bit_identical(stages: Sequence[Stage]) -> Dim:
    """1 if bands change no bits, else 0: direct convolutions sum tiles of few pixels in another order."""
    kept: Dim = 1
    for stage in stages:
        if not KINDS[stage.kind].is_depthwise:
            kept = kept * minimum(1, maximum(0, stage.sizes.ow - 2 * FMA_SUMS + 1))
    return kept


def most_rows(stages: Sequence[Stage], rows: Dim) -> list[Dim]:
    """For each stage, the most rows of its result that a band of ``rows`` rows of the last result needs."""
    last = minimum(rows, stages[-1].sizes.oh)
    found = [last]
    for stage in reversed(stages[1:]):
        found.append(maximum(0, stage.rows_read(found[-1])))
    return found[::-1]


def ring_bytes(isa: Isa, stages: Sequence[Stage], rows: Dim) -> Dim:
    """The bytes of all ring buffers."""
    kept = zip(stages[:-1], most_rows(stages, rows), strict=False)
    pixels = ((stage, room * stage.sizes.ow + _PAD) for stage, room in kept)
    return sum(
        (64 * ceildiv(count * stage.blocks(isa.lanes) * isa.vector_bytes, 64) for stage, count in pixels), 0
    )


def stage_scratch_bytes(isa: Isa, stages: Sequence[Stage], rows: Dim) -> Dim:
    """The scratch bytes of the stage that needs the most."""
    most: Dim = 0
    for stage, room in zip(stages, most_rows(stages, rows), strict=True):
        most = maximum(most, KINDS[stage.kind].scratch(isa, _with_rows(stage.sizes, room)))
    return most


def _with_rows(args: Convolution2dArgs, rows: Dim) -> Convolution2dArgs:
    return type(args)(
        *(rows if name == "oh" else value for name, value in zip(args.names(), args, strict=True))
    )


def arguments(isa: Isa, stages: Sequence[Stage], rows: Dim) -> tuple[Dim, ...]:
    """The arguments of the launch."""
    own = [
        number
        for stage in stages
        for number in (
            *(stage.kind, len(stage.args), stage.operands, stage.result, stage.pixels, stage.images),
            *stage.args,
        )
    ]
    count = len(ABI.args) + len(own)
    return (count, len(stages), rows, _unit(stages, rows), stage_scratch_bytes(isa, stages, rows), *own)


def grid(stages: Sequence[Stage], rows: Dim) -> Dim:
    """The number of units of work: images, groups of bands (fastest)."""
    return stages[0].sizes.images * ceildiv(_bands(stages, rows), _unit(stages, rows))


def calls(stages: Sequence[Stage], rows: Dim) -> Dim:
    """The number of kernel calls for one image."""
    return len(stages) * _bands(stages, rows)


def _bands(stages: Sequence[Stage], rows: Dim) -> Dim:
    return ceildiv(stages[-1].sizes.oh, rows)


def _unit(stages: Sequence[Stage], rows: Dim) -> Dim:
    return maximum(1, ceildiv(_bands(stages, rows), _UNITS))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """``bands.c`` defines its extent function itself, as this depends on its stages."""
    return (ExtentInC(SYMBOL, ABI.args, (), grid=0),)


def header(isa: Isa) -> str:
    """The generated header of ``bands.c``."""
    declared = "".join(
        f"GW_KERNEL({kind.symbol});\n"
        f"int32_t {kind.symbol}_extent(const int64_t *arg, int64_t args, int64_t operands, double *out);\n"
        for kind in KINDS
    )
    positions = ", ".join((*_NAMES, *_OPERANDS))
    rows = "".join(f"    {{{_row(kind)}}},\n" for kind in KINDS)
    return f"""{ABI.c_text()}{STAGE.c_text()}
{declared}
enum {{ STAGES = {MOST_STAGES}, KINDS = {len(KINDS)} }};
enum {{ MOST_ARGS = {MOST_ARGS}, MOST_OPERANDS = {MOST_OPERANDS} }};
#define BLOCK_PAD ({_PAD} * VL)

/* A kernel, and where its arguments and operands stand; -1: it has none. */
struct kind {{
    int32_t (*run)(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch);
    int32_t (*extent)(const int64_t *arg, int64_t args, int64_t operands, double *out);
    int64_t args, operands, is_depthwise;
    int8_t {positions};
}};
static const struct kind kinds[KINDS] = {{
{rows}}};
"""


def _row(kind: Kind) -> str:
    args, operands = kind.abi.args, kind.abi.operands
    names = [{"x_c": "x_cb", "y_c": "y_cb"}.get(n, n) if n not in args else n for n in _NAMES]
    positions = [args.index(name) if name in args else -1 for name in names]
    positions += [operands.index(name) for name in _OPERANDS]
    flags = len(args), len(operands), int(kind.is_depthwise)
    return ", ".join([kind.symbol, f"{kind.symbol}_extent", *map(str, (*flags, *positions))])
