"""The vector ISAs that kernels are written for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from graphwright.cost.machine import MACHINES, Machine
from graphwright.records import dataclass, replace

_COMMON_FLAGS: Final = ("-O2", "-std=c11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Isa:
    """A vector ISA: ``vector_bytes`` per register and the compiler's ``flags`` for code generation;
    ``measured`` is this machine if its rates are known.
    """

    name: str
    vector_bytes: int
    flags: tuple[str, ...]
    features: tuple[str, ...]
    """The CPU features that tell whether a CPU has the ISA, as C compilers name them."""
    measured: Machine | None = None

    @property
    def lanes(self) -> int:
        """f32 elements per vector."""
        return self.vector_bytes // 4

    @property
    def chains(self) -> int:
        """The number of long dependency chains that are interleaved to hide latency."""
        return 2 if self.vector_bytes == 64 else 4

    @property
    def machine(self) -> Machine:
        """The machine that costs are predicted for."""
        return self.measured or MACHINES[self.name]

    def on(self, machine: Machine) -> Isa:
        """The same ISA on ``machine``, whose rates are known."""
        return self if machine == self.machine else _measured(self, machine)

    @property
    def zig_flags(self) -> tuple[str, ...]:
        """``flags`` as ``zig cc`` reads them: it spells x86-64-v3 as x86_64_v3."""
        return tuple(f.replace("x86-64-", "x86_64_") for f in self.flags)


V3: Final = Isa("v3", 32, (*_COMMON_FLAGS, "-march=x86-64-v3"), ("avx2", "fma"))
"""x86-64-v3: AVX2 and FMA, 16 registers."""
V4: Final = Isa(
    "v4",
    64,
    (*_COMMON_FLAGS, "-march=x86-64-v4", "-mprefer-vector-width=512"),
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)
"""x86-64-v4: AVX-512 F, BW, CD, DQ and VL, 32 registers."""
ISAS: Final[dict[str, Isa]] = {"v3": V3, "v4": V4}


@cache
def _measured(isa: Isa, machine: Machine) -> Isa:
    return replace(isa, measured=machine)


def vector_header() -> str:
    """The text of ``vector.h``, which derives the vector width from the compiler's flags: the head of files
    that are compiled alone.
    """
    return Path(__file__).with_name("vector.h").read_text(encoding="utf-8")
