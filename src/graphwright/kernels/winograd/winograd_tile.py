"""C text of the products in Winograd's transform domain: y[tile, output] = sum of v[tile, k] * u[k, output].

The accumulators of a tile stay in registers for all channels, as in :mod:`graphwright.kernels.library.tile`.
Unlike there, few tiles share each weight, so products are bound by reading weights. The next weights are
therefore prefetched evenly between the FMAs, as many bytes as the product itself reads.
"""

from __future__ import annotations

from typing import Final

from graphwright.kernels.library.assembly import Accumulators, clobbered, outer_product, spread
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

K_RUN: Final = 16
"""Contiguous channels of the transformed input."""

_UNROLL: Final = 4
"""Channels per iteration of the loop."""
_FETCHES: Final = 6
"""Cache lines prefetched per iteration."""


def product_rows(isa: Isa) -> int:
    """The most tiles of a product."""
    return 9 if isa.vector_bytes == 64 else 6


def product_vectors(isa: Isa) -> int:
    """The most output blocks of a product: 27 accumulators in 32 registers, or 12 in 16."""
    return 3 if isa.vector_bytes == 64 else 2


def products(isa: Isa) -> str:
    """``product_of[rows - 1][vectors - 1](k, v, u, y, ahead, step)``. ``v`` is [K_RUN channels][ROWS][K_RUN],
    ``u`` is [channel][vector][VL], ``y`` is [row][vector][VL]. From ``ahead`` on, ``FETCHES`` cache lines,
    ``step`` bytes apart, are prefetched to L2 for each ``UNROLL`` channels.
    """
    rows, vectors = range(1, product_rows(isa) + 1), range(1, product_vectors(isa) + 1)
    table = ",\n".join(f"    {{{', '.join(f'product_{r}x{v}' for v in vectors)}}}" for r in rows)
    return f"""\
#define K_RUN {K_RUN}
#define ROWS {len(rows)} /* tiles of a product at most */
#define VECTORS {len(vectors)} /* blocks of output channels of a product at most */
#define UNROLL {_UNROLL}
#define FETCHES {_FETCHES}

{"".join(_Product(isa, r, v).text() for r in rows for v in vectors)}
typedef void (*product_fn)(int64_t k, const float *v, const float *u, float *y, const float *ahead,
                           int64_t step);
static const product_fn product_of[ROWS][VECTORS] = {{
{table},
}};
"""


@dataclass(frozen=True)
class _Product:
    """One product as one block of inline assembly with fixed registers."""

    isa: Isa
    rows: int
    vectors: int

    def text(self) -> str:
        iterations, sums = K_RUN // _UNROLL, self.accumulators.flat()
        skip = 4 * K_RUN * (product_rows(self.isa) - 1)
        code = [
            *self.accumulators.clear(),
            "test %[runs], %[runs]",
            "jz 4f",
            ".p2align 5",
            f"2: mov ${iterations}, %%ecx",
            "3:",
            *(line for number in range(_UNROLL) for line in self.step(number, fetch=True)),
            *self.advance(_UNROLL),
            "dec %%ecx",
            "jnz 3b",
            f"add ${skip}, %[v]",
            "dec %[runs]",
            "jnz 2b",
            "4: test %[rest], %[rest]",
            "jz 6f",
            "5:",
            *self.step(0, fetch=False),
            *self.advance(1),
            "dec %[rest]",
            "jnz 5b",
            "6:",
            *(f"vmovups {x}, {i * self.isa.vector_bytes}(%[y])" for i, x in enumerate(sums)),
        ]
        return "\n".join(
            [
                f"static void product_{self.rows}x{self.vectors}(int64_t k, const float *v, const float *u, "
                "float *y,",
                "                        const float *ahead, int64_t step) {",
                "    int64_t runs = k / K_RUN, rest = k % K_RUN;",
                "    __asm__ volatile(",
                *(f'        "{line}\\n"' for line in code),
                '        : [v] "+r"(v), [u] "+r"(u), [runs] "+r"(runs), [rest] "+r"(rest),',
                '          [ahead] "+r"(ahead)',
                '        : [step] "r"(step), [y] "r"(y)',
                f'        : "rcx", "cc", "memory", {clobbered(self.isa)});',
                "}",
                "",
                "",
            ]
        )

    @property
    def accumulators(self) -> Accumulators:
        """The registers of the sums."""
        return Accumulators(self.isa, self.rows, self.vectors)

    def step(self, number: int, *, fetch: bool) -> list[str]:
        """The FMAs of one channel, with index ``number`` in the unrolled loop."""
        spare = self.accumulators.spare
        columns, free = spare[: self.vectors], spare[self.vectors :][:4]
        folded = self.rows // 3 if self.isa.vector_bytes == 64 else 0
        at = number * self.vectors
        lines = [f"vmovups {(at + v) * self.isa.vector_bytes}(%[u]), {x}" for v, x in enumerate(columns)]
        fetches = (number + 1) * _FETCHES // _UNROLL - number * _FETCHES // _UNROLL if fetch else 0
        lines += ["prefetcht1 (%[ahead])", "add %[step], %[ahead]"] * fetches
        places = [f"{4 * (r * K_RUN + number)}(%[v])" for r in range(self.rows)]
        sums = self.accumulators.sums()
        return lines + outer_product(places, spread(folded, self.rows), columns, sums, free)

    def advance(self, steps: int) -> list[str]:
        """Advances to the next iteration."""
        return [f"add ${4 * steps}, %[v]", f"add ${steps * self.vectors * self.isa.vector_bytes}, %[u]"]
