"""The interface of targets: what their code can express, the limits of schedules, and code generation from
loops. Everything else about a target is private to its folder.
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
    """Compiles sources to binaries, for one compilation of a model."""

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """The binary of each source, from the target's cache if it is there. Raises ToolchainError."""

    def stop(self) -> None:
        """Interrupts :meth:`compile`, which then raises ToolchainError. Called from another thread."""


class Target(Protocol):
    """One kind of processor, such as an ISA of a CPU. Immutable."""

    @property
    def name(self) -> str:
        """Its name in packages; for a CPU the value of the option ``isa``."""

    @property
    def library(self) -> str:
        """The ISA of the kernel library that its programs may call; empty if they call none."""

    @property
    def channel_block(self) -> int:
        """The channel block size of the library's blocked layouts; 0 if it has no blocked layout."""

    @property
    def machine(self) -> Machine:
        """The machine that costs are predicted for."""

    @property
    def limits(self) -> Limits:
        """The limits of its schedules: memory spaces and block sizes."""

    @property
    def source_suffix(self) -> str:
        """The file extension of the sources of :meth:`emit`, such as ``.c``."""

    def has_code(self, dtype: DType) -> bool:
        """Whether its kernels can read and write elements of ``dtype``."""

    def node_refusal(self, node: Node) -> Refusal | None:
        """The reason, with code FUSE_TARGET, why a fused kernel cannot contain ``node``; None if it can. The
        dtypes of the node are supported.
        """

    def region_refusal(self, nodes: Sequence[Node], nest: Nest) -> Refusal | None:
        """The reason, with code FUSE_TARGET, why one kernel cannot compute ``nodes``, whose loop nest is
        ``nest``; None if it can. Each node alone was accepted.
        """

    def kernel_refusal(self, kernel: Kernel) -> str | None:
        """The reason why it cannot run ``kernel``, which was made for a single node; None if it can. Kernels
        of accepted regions always run.
        """

    def grid_of(self, kernel: Kernel) -> Dim:
        """The number of independent units of work of ``kernel``, into which a launch is divided."""

    def scratch_of(self, kernel: Kernel) -> Dim:
        """The bytes of private memory that each thread needs for ``kernel``."""

    def emit(self, kernels: Sequence[tuple[Kernel, str]]) -> str:
        """One source file with ``kernels``; before each is a comment (any text) that says what it
        comes from.
        """

    def compiler(self, options: Options) -> Compiler:
        """A compiler of its sources, which looks for its tools only when it first compiles."""
