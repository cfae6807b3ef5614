"""C text of the register tiles of convolutions with channel-blocked results.

A tile is some pixels times some output blocks of VL channels. Its accumulators stay in registers for all taps
and input channels of a call: each step loads one vector of weights per output block and broadcasts one
channel of each pixel (Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures", 2018). Every sum runs over input blocks, then taps, then channels of the block. Tiles too
small to keep the FMA units busy split a sum over several accumulators, so equal bits require equal tiles. A
tile is one block of inline assembly with fixed registers. Besides FMAs, the limit is the number of
instructions per cycle, especially if another thread shares the core. So with AVX-512, FMAs themselves read
and broadcast some of the pixels, as many as the load ports can serve. In bf16, a channel is a pair of
adjacent channels in the 32 bits of an f32 (``library/pairs.h``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwright.kernels.library.assembly import Accumulators, clobbered, outer_product, spread
from graphwright.kernels.library.tile import PAIR_TARGET
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_UNROLL: Final = 4
"""Channels (or taps of a planar input) per iteration of the inner loop: longer loops exceed the instruction
fetch.
"""

_WEIGHTS_AHEAD: Final = 1024
"""The prefetch distance to L1 of weights that do not stay there, in bytes."""

_FOLDED: Final = (1, 3, 5, 6)
"""One in this many pixels is broadcast by the FMAs, in tiles of 1, 2, ... output blocks."""


@dataclass(frozen=True)
class BlockedTile:
    """``pixels`` adjacent pixels of a row, times ``blocks`` output blocks of VL channels."""

    pixels: int
    blocks: int


@dataclass(frozen=True)
class Family:
    """The tiles for one kind of input: ``lanes`` channels per block (1: planar), ``step`` columns between
    pixels; ``pairs``: channels are pairs of bf16.
    """

    isa: Isa
    lanes: int
    step: int
    pairs: bool = False

    @property
    def name(self) -> str:
        """The prefix of their C names."""
        kind = "pairs" if self.pairs else "planar" if self.lanes == 1 else "blocked"
        return f"{kind}{self.step}"

    @property
    def pixel(self) -> int:
        """The bytes between pixels of the input."""
        return 4 * self.lanes * self.step

    def tile_name(self, tile: BlockedTile) -> str:
        """The C name of the function of ``tile``."""
        return f"{self.name}_{tile.pixels}x{tile.blocks}"


_FIELDS: Final = (
    "x", "x_block", "x_next", "taps", "tap_count", "channels", "w", "w_skip", "w_out", "bias", "added",
    "added_block", "to", "to_block", "far", "deep", "edges", "zeros", "ahead", "ahead_step", "act", "lo",
    "hi",
)  # fmt: skip

# Registers with a fixed role.
_X: Final = "%%r8"
"""The middle pixel of the tile in the current input block; addressing from the middle keeps displacements
short.
"""
_TAP, _TAPS_LEFT, _LEFT, _W, _W_OUT, _AHEAD = "%%r9", "%%r10", "%%r14", "%%rax", "%%rdx", "%%rbx"
_A: Final = "%%r11"
"""The middle pixel of the tile at the current tap."""
_FIRST, _LAST = "%%r12", "%%r13"
"""The first and the last pixel at the current tap."""
_TRIPLE: Final = "%%rsi"
"""Three times the distance between output blocks."""
_REGISTERS: Final = ("rax", "rbx", "rcx", "rdx", "rsi", *(f"r{i}" for i in range(8, 15)))
_BLOCKS: Final = ("(%%rax)", "(%%rax,%%rdx,4)", "(%%rax,%%rdx,8)", f"(%%rax,{_TRIPLE},4)")
"""Addresses of the output blocks, from rax on with the distance rdx."""


@dataclass(frozen=True)
class BlockedTileAssembly:
    """Generates the function of one tile."""

    family: Family
    tile: BlockedTile

    @property
    def wide(self) -> bool:
        """Whether vectors are those of AVX-512."""
        return self.family.isa.vector_bytes == 64

    @property
    def accumulators(self) -> Accumulators:
        """The registers of the sums: for each pixel, one per output block."""
        return Accumulators.filling(self.family.isa, self.tile.pixels, self.tile.blocks)

    @property
    def middle(self) -> int:
        """The bytes from the first pixel to the middle one, at which pointers point."""
        return self.tile.pixels // 2 * self.family.pixel

    def text(self) -> str:
        """The function."""
        code = [*self.start(), *self.products(), *self.finish()]
        offsets = ", ".join(f'[{field}] "i"(offsetof(struct tile, {field}))' for field in _FIELDS)
        clobbers = ", ".join(f'"{name}"' for name in (*_REGISTERS, "cc", "memory"))
        return "\n".join(
            [
                f"{PAIR_TARGET * self.family.pairs}static void {self.family.tile_name(self.tile)}"
                "(const struct tile *t) {",
                "    __asm__ volatile(",
                *(f'        "{line}\\n"' for line in code),
                f'        : : [t] "D"(t), {offsets}',
                f"        : {clobbers}, {clobbered(self.family.isa)});",
                "}",
                "",
            ]
        )

    def walk(self, pointer: str, cell: Callable[[str, str], str]) -> list[str]:
        """Applies ``cell`` to the address and accumulator of each cell. The field ``pointer`` is in rax, and
        the distance of its blocks (field ``pointer``_block) in rdx.
        """
        lines = [f"mov %c[{pointer}_block](%[t]), %%rdx", *self.triple()]
        size = self.family.isa.vector_bytes
        sums = enumerate(self.accumulators.sums())
        return lines + [cell(f"{p * size}{_BLOCKS[b]}", x) for p, row in sums for b, x in enumerate(row)]

    def triple(self) -> list[str]:
        """Computes three times rdx, for a fourth block."""
        return [f"lea (%%rdx,%%rdx,2), {_TRIPLE}"] if self.tile.blocks > 3 else []

    def start(self) -> list[str]:
        """Clears the accumulators."""
        after = self.tile.pixels * self.family.isa.vector_bytes
        return [
            *self.accumulators.clear(),
            "cmpq $0, %c[far](%[t])",
            "je 4f",
            "mov %c[to](%[t]), %%rax",
            *self.walk("to", lambda address, x: f"prefetcht0 {after}+{address}"),
            "4:",
        ]  # fmt: skip

    def products(self) -> list[str]:
        """Accumulates over all input blocks and taps."""
        return [
            f"mov %c[channels](%[t]), {_LEFT}",
            f"test {_LEFT}, {_LEFT}",
            "jle 9f",
            f"mov %c[x](%[t]), {_X}",
            f"add ${self.middle}, {_X}",
            f"mov %c[w](%[t]), {_W}",
            f"mov %c[w_out](%[t]), {_W_OUT}",
            f"shl $2, {_W_OUT}",
            *self.triple(),
            f"mov %c[ahead](%[t]), {_AHEAD}",
            ".p2align 4",
            f"5: mov %c[taps](%[t]), {_TAP}",
            f"mov %c[tap_count](%[t]), {_TAPS_LEFT}",
            *(self.planar_taps() if self.family.lanes == 1 else self.blocked_taps()),
            "8: mov %c[x_block](%[t]), %%rcx",
            f"lea ({_X},%%rcx,4), {_X}",
            "mov %c[w_skip](%[t]), %%rcx",
            f"lea ({_W},%%rcx,4), {_W}",
            f"sub ${self.family.lanes}, {_LEFT}",
            "jg 5b",
            "9:",
        ]

    def blocked_taps(self) -> list[str]:
        """The FMAs of all taps of one input block: an unrolled loop over whole blocks, single channels for
        the rest.
        """
        lanes, vector = self.family.lanes, self.family.isa.vector_bytes
        return [
            f"test {_TAPS_LEFT}, {_TAPS_LEFT}",
            "jz 8f",
            ".p2align 4",
            f"6: mov ({_TAP}), %%rcx",
            f"lea ({_X},%%rcx,4), {_A}",
            *self.pointers(),
            f"cmp ${lanes}, {_LEFT}",
            "jl 62f",
            f"mov ${lanes // _UNROLL}, %%ecx",
            "cmpq $0, %c[deep](%[t])",
            "jne 65f",
            *self.channel_loop(61, deep=False),
            f"63: add $16, {_TAP}",
            f"dec {_TAPS_LEFT}",
            "jnz 6b",
            "jmp 8f",
            *self.channel_loop(65, deep=True),
            "jmp 63b",
            f"62: mov {_LEFT}, %%rcx",
            "64:",
            *self.step(0, 0, 0, fetch=False),
            *self.advance(1),
            "dec %%rcx",
            "jnz 64b",
            f"mov ${lanes}, %%ecx",
            f"sub {_LEFT}, %%rcx",
            f"imul ${vector}, %%rcx, %%rcx",
            f"add %%rcx, {_W}",
            "jmp 63b",
        ]

    def channel_loop(self, label: int, *, deep: bool) -> list[str]:
        """An unrolled loop of ecx iterations over channels."""
        steps = [self.step(n, 4 * n, n % self.accumulators.splits, deep=deep) for n in range(_UNROLL)]
        lines = [line for step in steps for line in step]
        return [".p2align 5", f"{label}:", *lines, *self.advance(_UNROLL), "dec %%ecx", f"jnz {label}b"]

    def pointers(self) -> list[str]:
        """Sets the pointers of a tap: to the middle, the first and the last pixel."""
        next_block = [
            "mov %c[x_block](%[t]), %%rcx",
            f"cmp ${self.family.lanes}, {_LEFT}",
            "cmovle %c[x_next](%[t]), %%rcx",
            f"lea ({_A},%%rcx,4), %%rcx",
            *(f"prefetcht0 {self.column(p)}(%%rcx)" for p in range(self.tile.pixels)),
        ]
        end = (self.tile.pixels - 1) * self.family.pixel - self.middle
        outside = (1, 2) if self.tile.pixels > 1 else (3, 3)
        return [
            *next_block,
            f"lea {-self.middle}({_A}), {_FIRST}",
            f"lea {end}({_A}), {_LAST}",
            f"mov 8({_TAP}), %%rcx",
            "and %c[edges](%[t]), %%rcx",
            "jz 7f",
            f"test ${outside[0]}, %%cl",
            f"cmovnz %c[zeros](%[t]), {_FIRST}",
            f"test ${outside[1]}, %%cl",
            f"cmovnz %c[zeros](%[t]), {_LAST}",
            "7:",
        ]

    def advance(self, channels: int) -> list[str]:
        """Advances to the next channels of a tap."""
        lines = [f"add ${4 * channels}, {pointer}" for pointer in (_A, _FIRST, _LAST)]
        return [*lines, f"add ${channels * self.family.isa.vector_bytes}, {_W}"]

    def planar_taps(self) -> list[str]:
        """The FMAs of all taps of one channel."""
        unroll, vector = _UNROLL, self.family.isa.vector_bytes

        def steps(count: int) -> list[str]:
            lines = []
            for number in range(count):
                lines += [f"mov {16 * number}({_TAP}), %%rcx", f"lea ({_X},%%rcx,4), {_A}"]
                lines += self.step(number, 0, number % self.accumulators.splits, fetch=False)
            return [*lines, f"add ${16 * count}, {_TAP}", f"add ${count * vector}, {_W}"]

        return [
            f"sub ${unroll}, {_TAPS_LEFT}",
            "jl 62f",
            ".p2align 5",
            "61:",
            *steps(unroll),
            f"sub ${unroll}, {_TAPS_LEFT}",
            "jge 61b",
            f"62: add ${unroll}, {_TAPS_LEFT}",
            "jz 8f",
            "63:",
            *steps(1),
            f"dec {_TAPS_LEFT}",
            "jnz 63b",
        ]

    def folded(self) -> int:
        """The number of pixels that FMAs broadcast themselves: this takes one load per output block instead
        of one in total.
        """
        return self.tile.pixels // _FOLDED[self.tile.blocks - 1] if self.wide else 0

    def step(self, number: int, at: int, split: int, *, fetch: bool = True, deep: bool = False) -> list[str]:
        """The FMAs of one channel of a tap, ``at`` bytes from the pointers; ``number`` is its index in the
        unrolled loop.
        """
        tile, vector = self.tile, self.family.isa.vector_bytes
        weights, spare = self.accumulators.spare[: tile.blocks], self.accumulators.spare[tile.blocks :]
        blocks = [f"({_W})", f"({_W},{_W_OUT})", f"({_W},{_W_OUT},2)", f"({_W},{_TRIPLE})"]
        lines = [f"vmovups {number * vector}{blocks[b]}, {x}" for b, x in enumerate(weights)]
        if deep and number * vector % 64 == 0:
            ahead = _WEIGHTS_AHEAD + number * vector
            lines += [f"prefetcht0 {ahead}{blocks[b]}" for b in range(tile.blocks)]
        if fetch and number % 2 == 0:
            lines += [f"prefetcht1 ({_AHEAD})", f"add %c[ahead_step](%[t]), {_AHEAD}"]
        addresses = [self.address(p, at) for p in range(tile.pixels)]
        sums, fma = self.accumulators.sums(split), "vdpbf16ps" if self.family.pairs else "vfmadd231ps"
        return lines + outer_product(addresses, spread(self.folded(), tile.pixels), weights, sums, spare, fma)

    def address(self, pixel: int, at: int) -> str:
        """The operand of a pixel's value."""
        if self.family.lanes > 1 and pixel == 0:
            return f"{at}({_FIRST})"
        if self.family.lanes > 1 and pixel == self.tile.pixels - 1:
            return f"{at}({_LAST})"
        return f"{self.column(pixel) + at}({_A})"

    def column(self, pixel: int) -> int:
        """The bytes from the middle pixel to another one."""
        return pixel * self.family.pixel - self.middle

    def finish(self) -> list[str]:
        """Adds up the split accumulators and the addends, applies the activation, and stores."""
        sums, bound = self.accumulators.flat(), self.accumulators.spare[0]
        return [
            *self.accumulators.add_up(),
            *self.addends(),
            "cmpq $1, %c[act](%[t])",
            "jb 10f",
            f"vbroadcastss %c[lo](%[t]), {bound}",
            *(f"vmaxps {x}, {bound}, {x}" for x in sums),  # the second source is the result if one is NaN
            "je 10f",
            f"vbroadcastss %c[hi](%[t]), {bound}",
            *(f"vminps {x}, {bound}, {x}" for x in sums),
            "10: mov %c[to](%[t]), %%rax",
            *self.walk("to", lambda address, x: f"vmovups {x}, {address}"),
        ]

    def addends(self) -> list[str]:
        """Adds `added` and `bias` to the finished sums."""
        shared = self.accumulators.spare[: self.tile.blocks]
        size = self.family.isa.vector_bytes
        return [
            "mov %c[added](%[t]), %%rax",
            "test %%rax, %%rax",
            "jz 1f",
            *self.walk("added", lambda address, x: f"vaddps {address}, {x}, {x}"),
            "1: mov %c[bias](%[t]), %%rax",
            "test %%rax, %%rax",
            "jz 2f",
            *(f"vmovups {b * size}(%%rax), {x}" for b, x in enumerate(shared)),
            *(f"vaddps {shared[b]}, {x}, {x}" for row in self.accumulators.sums() for b, x in enumerate(row)),
            "2:",
        ]
