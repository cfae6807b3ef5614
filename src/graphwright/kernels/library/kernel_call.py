"""A call of a library kernel as a record of sizes and options, from which arguments and cost are computed."""

from __future__ import annotations

from graphwright.ir.symbols import Dim
from graphwright.kernels.library.arguments import Arguments
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa


@dataclass(frozen=True)
class KernelCall:
    """The base class of such records."""

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        raise NotImplementedError

    @property
    def grid(self) -> Dim:
        """The number of independent units of work."""
        return 1

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of scratch memory per thread."""
        return 0

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds."""
        raise NotImplementedError


@dataclass(frozen=True)
class ArgumentsCall(Arguments, KernelCall):
    """A call whose fields are its arguments."""

    @property
    def args(self) -> tuple[Dim, ...]:
        return tuple(self)
