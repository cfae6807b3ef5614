"""What a target is: the compiler asks it what it can express and how its launches are divided, and has it
make code of loops. Nothing outside a target's folder knows how.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from graphwright.config import Options
from graphwright.cost.machine import Machine
from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Kernel
from graphwright.ir.refusal import Refusal
from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType
from graphwright.loop_nests.limits import Limits
from graphwright.loop_nests.nest import Nest


class Compiler(Protocol):
    """Makes binaries of sources for one compilation of a model."""

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """A binary of each source, from the target's cache where it holds it. Raises ToolchainError."""

    def stop(self) -> None:
        """End what runs, from another thread: :meth:`compile` raises ToolchainError."""


class Target(Protocol):
    """One kind of processor, such as an ISA of a CPU. Immutable."""

    @property
    def name(self) -> str:
        """As packages call it; for a CPU that of the option ``isa``."""

    @property
    def library(self) -> str:
        """The ISA that the library's kernels are called for; empty where none of them runs."""

    @property
    def channel_block(self) -> int:
        """Channels that the library's convolutions take at a time; 0 where images stay as they are."""

    @property
    def machine(self) -> Machine:
        """What costs are predicted for."""

    @property
    def limits(self) -> Limits:
        """What its schedules may use: memory spaces, and sizes of blocks."""

    @property
    def source_suffix(self) -> str:
        """The ending of files of :meth:`emit`: ``.c``."""

    def has_code(self, dtype: DType) -> bool:
        """Whether its kernels can read and write elements of ``dtype``."""

    def node_refusal(self, node: Node) -> Refusal | None:
        """Why no kernel of a region holds ``node``, whose dtypes have code, as FUSE_TARGET; None where one
        can."""

    def region_refusal(self, nodes: Sequence[Node], nest: Nest) -> Refusal | None:
        """Why no one kernel computes ``nodes``, each of which one can hold, and which form the loop nest
        ``nest``, as FUSE_TARGET; None where one can."""

    def kernel_refusal(self, kernel: Kernel) -> str | None:
        """Why it cannot run ``kernel``, which was written for one node; None where it can. It runs those of
        the regions that it does not refuse."""

    def grid_of(self, kernel: Kernel) -> Dim:
        """Independent units of work of ``kernel``: what a launch is divided into."""

    def scratch_of(self, kernel: Kernel) -> Dim:
        """Bytes of private memory that each thread needs for ``kernel``."""

    def emit(self, kernels: Sequence[tuple[Kernel, str]]) -> str:
        """One source with ``kernels``, behind a comment each (any text): where they come from."""

    def compiler(self, options: Options) -> Compiler:
        """What makes binaries of sources. It looks for its tools when it first compiles."""
