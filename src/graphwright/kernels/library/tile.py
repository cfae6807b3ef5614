"""C text of the register tile that GEMM and convolution share: C[rows, cols] += A[rows, k] * B[k, cols].

The accumulators of a tile stay in registers for all of k: each step loads one row of B and broadcasts one
column of A (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). In bf16, an
element is a pair of adjacent elements along k, in the 32 bits of an f32 (``library/pairs.h``); the same tiles
multiply pairs by another instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graphwright.kernels.library.assembly import Accumulators, clobbered, outer_product, zeroed
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

K_RUN: Final = 16
"""Values of k between prefetches, and between gaps in packed A."""

CHAIN: Final = 256
"""The most products that are accumulated one after the other. A longer sum is a sum of partial sums, as
rounding errors grow with the length (Higham, "The accuracy of floating point summation", 1993).
"""

_UNROLL: Final = 4
"""Values of k per iteration of a tile's loop."""

PAIR_TARGET: Final = '__attribute__((target("avx512bf16"))) '
"""The attribute of functions that multiply pairs."""


@dataclass(frozen=True)
class TileShape:
    """The largest tile: ``rows`` x ``vectors``. Element (r, k) of A is at ``r * a_row + k * a_k``, plus
    ``a_skip`` elements for each complete run of :data:`K_RUN` values of k before it. ``unroll``: values of k
    per iteration.
    """

    rows: int
    vectors: int
    a_row: int
    a_k: int
    a_skip: int = 0
    unroll: int = 2

    def columns(self, isa: Isa) -> int:
        """The columns of the tile, and of a panel of B."""
        return self.vectors * isa.lanes


_OPERANDS: Final = """\
        : [a] "+r"(a), [b] "+r"(b), [runs] "+r"(runs), [rest] "+r"(rest), [ahead] "+r"(ahead)@ROWS@
        : [ldb] "r"(4 * ldb), [step] "r"(step), [skip] "rm"(skip), [t] "r"(t)@LDA@"""

_POINTED_ROWS: Final = 3
"""Rows of A in place that one pointer addresses: itself, and those one and two strides further."""


@dataclass(frozen=True)
class TileAssembly:
    """One tile as one block of inline assembly with fixed registers. Besides FMAs, the limit is the number of
    instructions per cycle, especially if another thread shares the core. So with AVX-512, the FMAs of a third
    of the rows read and broadcast numbers from memory themselves; the load ports still are idle a third of
    the time. A small tile splits k over several sets of accumulators.
    """

    shape: TileShape
    isa: Isa
    rows: int
    vectors: int
    in_place: bool
    pairs: bool

    @property
    def name(self) -> str:
        """The C name of the function."""
        return f"tile{'_in_place' * self.in_place}_{self.rows}x{self.vectors}"

    @property
    def pointers(self) -> list[str]:
        """Pointers to A: to its first row; in place, to every third row."""
        rows = range(_POINTED_ROWS, self.rows if self.in_place else 0, _POINTED_ROWS)
        return ["a", *(f"a{row}" for row in rows)]

    @property
    def accumulators(self) -> Accumulators:
        """The registers of the sums."""
        return Accumulators.filling(self.isa, self.rows, self.vectors)

    @property
    def columns(self) -> list[str]:
        """Registers for a row of B."""
        return self.accumulators.spare[: self.vectors]

    def text(self) -> str:
        """The function ``tile_RxV``."""
        head = (
            f"{PAIR_TARGET * self.pairs}static void {self.name}(int64_t k, const float *a, "
            f"{'int64_t lda, ' * self.in_place}const float *b, int64_t ldb, const struct tile *t) {{"
        )
        lines = [
            head,
            *(f"    const float *{x} = a + {x[1:]} * lda;" for x in self.pointers[1:]),
            "    const float *ahead = t->ahead ? t->ahead : a;",
            f"    int64_t runs = k / {K_RUN}, rest = k % {K_RUN};",
            "    const int64_t step = 4 * t->ahead_step, skip = 4 * t->ahead_skip;",
            "    __asm__ volatile(",
            *(f'        "{line}\\n"' for line in self.instructions()),
            *self.operands(),
            "}",
            "",
            "",
        ]
        return "\n".join(lines)

    def instructions(self) -> list[str]:
        """The loops over k: runs of ``K_RUN`` steps, then single steps for the rest."""
        splits = self.accumulators.splits
        return [
            *self.accumulators.clear(),
            "lea (%[ldb],%[ldb],2), %%rdx",
            "mov %c[to](%[t]), %%rax",
            "test %[runs], %[runs]",
            "jz 4f",
            ".p2align 5",
            "2:",
            *self.fetch_target(),
            f"8: mov ${K_RUN // _UNROLL}, %%ecx",
            "3:",
            *(line for number in range(_UNROLL) for line in self.step(number, number % splits)),
            *self.advance(_UNROLL),
            "dec %%ecx",
            "jnz 3b",
            "prefetcht1 (%[ahead])",
            "add %[skip], %[ahead]",
            *([] if self.in_place else [f"add ${4 * self.shape.a_skip}, %[a]"]),
            "dec %[runs]",
            "jnz 2b",
            "4: test %[rest], %[rest]",
            "jz 6f",
            "5:",
            *self.step(0, 0, fetch=False),
            *self.advance(1),
            "dec %[rest]",
            "jnz 5b",
            "6:",
            *self.finish(),
        ]

    def operands(self) -> list[str]:
        """The operands and clobbers of the assembly."""
        fields = ("added", "added_ld", "row", "column", "column_ld", "to", "to_ld", "relu", "clip")
        offsets = ", ".join(f'[{field}] "i"(offsetof(struct tile, {field}))' for field in fields)
        rows = "".join(f', [{x}] "+r"({x})' for x in self.pointers[1:])
        operands = _OPERANDS.replace("@ROWS@", rows)
        operands = operands.replace("@LDA@", ', [lda] "r"(4 * lda)' if self.in_place else "")
        return [
            operands + ",",
            f"          {offsets}",
            f'        : "rax", "rcx", "rdx", "cc", "memory", {clobbered(self.isa)});',
        ]

    def fetch_target(self) -> list[str]:
        """Prefetches one row of the destination in each of the last runs, as store misses stall loads."""
        lines = range(0, self.vectors * self.isa.vector_bytes, 64)
        return [
            f"cmp ${self.rows}, %[runs]",
            "ja 8f",
            *(f"prefetcht0 {line}(%%rax)" for line in lines),
            "mov %c[to_ld](%[t]), %%rcx",
            "lea (%%rax,%%rcx,4), %%rax",
        ]

    def finish(self) -> list[str]:
        """Adds up the split accumulators and the addends, clips, and stores."""
        return [
            *self.accumulators.add_up(),
            *self.addends(),
            "mov %c[to](%[t]), %%rax",
            "mov %c[to_ld](%[t]), %%rdx",
            *self.activate(),
            *self.walk("rax", "rdx", lambda v, x: f"vmovups {x}, {self.at(v)}(%%rax)"),
        ]

    def addends(self) -> list[str]:
        """Adds what ``struct tile`` says to the finished sums."""
        own = self.columns
        cells = [f"vaddps {own[v]}, {x}, {x}" for row in self.accumulators.sums() for v, x in enumerate(row)]

        def add_tile(v: int, x: str) -> str:
            return f"vaddps {self.at(v)}(%%rax), {x}, {x}"

        def add_column(v: int, x: str) -> str:
            load = f"vbroadcastss (%%rax), {own[0]}\\n" if v == 0 else ""
            return f"{load}vaddps {own[0]}, {x}, {x}"

        return [
            *("mov %c[added](%[t]), %%rax", "test %%rax, %%rax", "jz 1f", "mov %c[added_ld](%[t]), %%rdx"),
            *self.walk("rax", "rdx", add_tile),
            *("1:", "mov %c[row](%[t]), %%rax", "test %%rax, %%rax", "jz 7f"),
            *(f"vmovups {self.at(v)}(%%rax), {x}" for v, x in enumerate(own)),
            *cells,
            *(
                "7:",
                "mov %c[column](%[t]), %%rax",
                "test %%rax, %%rax",
                "jz 11f",
                "mov %c[column_ld](%[t]), %%rdx",
            ),
            *self.walk("rax", "rdx", add_column),
            "11:",
        ]

    def activate(self) -> list[str]:
        """Relu and clip. Maximum and minimum return the first operand in this syntax if it is NaN."""
        sums = self.accumulators.flat()
        low, high = self.accumulators.spare[:2]
        return [
            *("cmpl $0, %c[relu](%[t])", "je 9f", *zeroed([low])),
            *(f"vmaxps {x}, {low}, {x}" for x in sums),
            *("9:", "mov %c[clip](%[t]), %%rcx", "test %%rcx, %%rcx", "jz 10f"),
            *(f"vbroadcastss (%%rcx), {low}", f"vbroadcastss 4(%%rcx), {high}"),
            *(line for x in sums for line in (f"vmaxps {x}, {low}, {x}", f"vminps {x}, {high}, {x}")),
            "10:",
        ]

    def walk(self, pointer: str, ld: str, cell: Callable[[int, str], str]) -> list[str]:
        """Applies ``cell`` to the position in its row and the register of all cells; ``pointer`` advances by
        ``ld`` elements per row.
        """
        lines: list[str] = []
        for row in self.accumulators.sums():
            lines += [cell(v, x) for v, x in enumerate(row)]
            lines += [f"lea (%%{pointer},%%{ld},4), %%{pointer}"]
        return lines[:-1]

    def at(self, vector: int) -> int:
        return vector * self.isa.vector_bytes

    def step(self, number: int, split: int, *, fetch: bool = True) -> list[str]:
        """The FMAs of one k, with index ``number`` in the unrolled loop."""
        columns, free = self.columns, self.accumulators.spare[self.vectors :][:4]
        lines = {
            0: ["prefetcht1 (%[ahead])"],
            2: ["prefetcht1 (%[ahead],%[step])", "lea (%[ahead],%[step],2), %[ahead]"],
        }.get(number if fetch else -1, [])
        row = ("(%[b])", "(%[b],%[ldb])", "(%[b],%[ldb],2)", "(%[b],%%rdx)")[number]
        lines += [f"vmovups {self.at(v)}{row}, {x}" for v, x in enumerate(columns)]
        elements = [self.number_of_a(r, number) for r in range(self.rows)]
        folded = [self.isa.vector_bytes == 64 and self.rows > 2 and r % 3 == 0 for r in range(self.rows)]
        fma = "vdpbf16ps" if self.pairs else "vfmadd231ps"
        return lines + outer_product(elements, folded, columns, self.accumulators.sums(split), free, fma)

    def number_of_a(self, row: int, number: int) -> str:
        """The operand of A for the k with index ``number`` in the unrolled loop."""
        if not self.in_place:
            return f"{4 * (row * self.shape.a_row + number * self.shape.a_k)}(%[a])"
        index = ("", ",%[lda]", ",%[lda],2")[row % _POINTED_ROWS]
        return f"{4 * number}(%[{self.pointers[row // _POINTED_ROWS]}]{index})"

    def advance(self, steps: int) -> list[str]:
        """Advances to the next iteration."""
        b = f"lea (%[b],%[ldb],{steps}), %[b]"
        length = 4 * steps * (1 if self.in_place else self.shape.a_k)
        return [*(f"add ${length}, %[{x}]" for x in self.pointers), b]
