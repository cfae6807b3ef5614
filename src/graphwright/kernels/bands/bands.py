"""A chain of convolutions on channel blocks, band by band: what lies between them stays in the cache.

A unit of the grid is some bands of rows of the last result. For each band each stage computes the rows that
the next one reads, the library's kernels being called with fewer rows; these rows lie in a ring of scratch
for each value inside the chain. Bands that one thread runs one after the other share rows: those that the
next band reads again are moved to the front of the ring, so that each is computed once. Layers fused by
bands with a halo: Alwani et al., "Fused-layer CNN accelerators", 2016; sliding windows: Ragan-Kelley et al.,
"Halide", 2013.

Kernels sum each pixel in the same order whatever rows they are given, so bands change no bits, except direct
ones in rows so short that some tiles have few pixels (:func:`keeps_bits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from graphwright.cost.machine import FMA_SUMS
from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum
from graphwright.kernels.conv import blocked_depthwise, direct
from graphwright.kernels.conv.arguments import BlockedConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import Extent, ExtentInC
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_bands"
MOST_STAGES: Final = 8
_UNITS: Final = 8
"""Of an image, for several threads: where a thread begins, rows that two bands share are computed twice."""
MOST_ARGS: Final = 64
MOST_OPERANDS: Final = 32
"""Of a stage, those of its hook included."""

ABI: Final = Abi("bands", (), ("args", "stages", "rows", "unit", "scratch"))
"""``args``: how many all arguments are; ``rows`` of the last result in a band;
``unit``: bands of a unit of the grid; ``scratch`` in bytes, of the
stage that needs the most. Then, for each stage, :data:`STAGE` and the arguments of its kernel, for all rows,
and of its hook. The operands are those of all stages, with the hook; those inside the chain are absent."""
STAGE: Final = Abi("stage", (), ("kind", "args", "operands", "result", "pixels", "images"))
"""``kind``: position in :data:`KINDS`; how many arguments and operands follow; of a hook whose result is
inside the chain, that operand, and the argument that counts the result's pixels (else -1); a bit for each
operand of a hook that is an image like the result."""


@dataclass(frozen=True)
class Kind:
    """A kernel that can be a stage. ``scratch``: enough for any number of rows up to those of its args."""

    symbol: str
    abi: Abi
    args: Callable[..., BlockedConvolutionArgs]
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
"""What can be a stage."""
_PAD: Final = 5
"""Pixels between blocks of channels in a ring, whose rows would else meet in few sets of the caches."""
_NAMES: Final = (
    *("images", "groups", "cin", "cout", "h", "w", "oh", "ow", "kh", "stride_h", "pad_top", "dilation_h"),
    *("x_n", "x_c", "x_h", "r_n", "r_h", "y_n", "y_c", "y_h", "y_lanes"),
)
"""Arguments whose positions the driver knows."""
_OPERANDS: Final = ("x", "residual", "y")


@dataclass(frozen=True)
class Stage:
    """A convolution of a chain: its kernel's arguments for all rows, then those of its hook."""

    kind: int
    args: tuple[Dim, ...]
    operands: int
    result: int = -1
    pixels: int = -1
    images: int = 0

    @property
    def sizes(self) -> BlockedConvolutionArgs:
        """The arguments of the kernel, by name."""
        kind = KINDS[self.kind]
        return kind.args(*self.args[: len(kind.abi.args)])

    def blocks(self, lanes: int) -> Dim:
        """Blocks of channels of the result."""
        return self._blocks(self.sizes.cout, lanes)

    def _blocks(self, channels: Dim, lanes: int) -> Dim:
        """Of ``channels`` in each group."""
        if KINDS[self.kind].is_depthwise:
            return ceildiv(self.sizes.groups, lanes)
        return self.sizes.groups * ceildiv(channels, lanes)

    def image_made(self, lanes: int) -> tuple[Dim, ...]:
        """Images, blocks of channels, rows and columns of the result."""
        sizes = self.sizes
        return sizes.images, self.blocks(lanes), sizes.oh, sizes.ow

    def image_read(self, lanes: int) -> tuple[Dim, ...]:
        """The same of the input."""
        sizes = self.sizes
        return sizes.images, self._blocks(sizes.cin, lanes), sizes.h, sizes.w

    def rows_read(self, rows: Dim) -> Dim:
        """Rows of the input that so many rows of the result need at most."""
        sizes = self.sizes
        return minimum(sizes.h, (rows - 1) * sizes.stride_h + (sizes.kh - 1) * sizes.dilation_h + 1)


def keeps_bits(stages: Sequence[Stage]) -> Dim:
    """1 where bands change no bits, else 0: a direct convolution splits sums in tiles of few pixels."""
    kept: Dim = 1
    for stage in stages:
        if not KINDS[stage.kind].is_depthwise:
            kept = kept * minimum(1, maximum(0, stage.sizes.ow - 2 * FMA_SUMS + 1))
    return kept


def rooms(stages: Sequence[Stage], rows: Dim) -> list[Dim]:
    """Rows of each stage's result that a band of ``rows`` rows of the last result needs at most."""
    last = minimum(rows, stages[-1].sizes.oh)
    found = [last]
    for stage in reversed(stages[1:]):
        found.append(maximum(0, stage.rows_read(found[-1])))
    return found[::-1]


def ring_bytes(isa: Isa, stages: Sequence[Stage], rows: Dim) -> Dim:
    """Of what lies between the stages."""
    kept = zip(stages[:-1], rooms(stages, rows), strict=False)
    pixels = ((stage, room * stage.sizes.ow + _PAD) for stage, room in kept)
    return sum(
        (64 * ceildiv(count * stage.blocks(isa.lanes) * isa.vector_bytes, 64) for stage, count in pixels), 0
    )


def stage_scratch_bytes(isa: Isa, stages: Sequence[Stage], rows: Dim) -> Dim:
    """Of the stage that needs the most."""
    most: Dim = 0
    for stage, room in zip(stages, rooms(stages, rows), strict=True):
        most = maximum(most, KINDS[stage.kind].scratch(isa, _with_rows(stage.sizes, room)))
    return most


def _with_rows(args: BlockedConvolutionArgs, rows: Dim) -> BlockedConvolutionArgs:
    return type(args)(
        *(rows if name == "oh" else value for name, value in zip(args.names(), args, strict=True))
    )


def arguments(isa: Isa, stages: Sequence[Stage], rows: Dim) -> tuple[Dim, ...]:
    """Of the launch."""
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
    """The number of units of work: images, runs of bands (fastest)."""
    return stages[0].sizes.images * ceildiv(_bands(stages, rows), _unit(stages, rows))


def calls(stages: Sequence[Stage], rows: Dim) -> Dim:
    """Of kernels, for one image."""
    return len(stages) * _bands(stages, rows)


def _bands(stages: Sequence[Stage], rows: Dim) -> Dim:
    return ceildiv(stages[-1].sizes.oh, rows)


def _unit(stages: Sequence[Stage], rows: Dim) -> Dim:
    return maximum(1, ceildiv(_bands(stages, rows), _UNITS))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """``bands.c`` says itself what its stages touch."""
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
    places = [args.index(name) if name in args else -1 for name in names]
    places += [operands.index(name) for name in _OPERANDS]
    flags = len(args), len(operands), int(kind.is_depthwise)
    return ", ".join([kind.symbol, f"{kind.symbol}_extent", *map(str, (*flags, *places))])
