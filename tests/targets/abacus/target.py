"""What the compiler asks of the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.config import Options
from graphwright.cost.machine import Level as MemoryLevel
from graphwright.cost.machine import Machine
from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Call, Kernel, Level, walk
from graphwright.ir.loops.text import print_kernel
from graphwright.ir.op import Trait, reduction_op
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, I64, DType
from graphwright.loop_nests.limits import Limits
from graphwright.loop_nests.nest import Nest
from graphwright.records import dataclass
from graphwright.targets.registry import register_target

NAME = "abacus"
CACHE = MemoryLevel(1 << 20, load=1, store=1)
MARK = "// "
"""How lines begin that are no loop IR."""


@dataclass(frozen=True)
class AbacusTarget:
    """A target whose kernels are texts."""

    name: str = NAME
    library: str = ""
    channel_block: int = 0
    source_suffix: str = ".txt"
    machine: Machine = Machine(4, 1000, 1, 1, 1, CACHE, CACHE, CACHE, CACHE)
    limits: Limits = Limits(
        memory=frozenset({Level.GLOBAL, Level.REGISTER}),
        nodes=6,
        operands=4,
        column_block=8,
        column_step=4,
        unroll=2,
        unroll_row=16,
        unroll_elements=1 << 20,
        short_axis=4,
        row_block=8,
        lane_row=2,
        lane_columns=4,
        register_row=4,
        cache_ways=2,
        page=64,
        lane_block=8,
        lane_sums=2,
    )

    def has_code(self, dtype: DType) -> bool:
        return dtype in (F32, I64)

    def node_refusal(self, node: Node) -> Refusal | None:
        if Trait.REDUCTION in node.op.traits:
            axes = reduction_op(node.op).resolved(len(node.operand(0).type.dims))
            return None if len(axes) == 1 else Refusal(Code.TARGET, f"a reduction over {len(axes)} axes")
        return None

    def region_refusal(self, nodes: Sequence[Node], nest: Nest) -> Refusal | None:
        count = sum(Trait.REDUCTION in node.op.traits for node in nodes)
        return None if count <= 1 else Refusal(Code.TARGET, f"{count} reductions in one kernel")

    def kernel_refusal(self, kernel: Kernel) -> str | None:
        if any(isinstance(statement, Call) for statement in walk(kernel.body)):
            return "there are no microkernels"
        strided = [buffer.name for buffer in kernel.parameters if buffer.strides is not None]
        return f"{', '.join(strided)} has strides" if strided else None

    def grid_of(self, kernel: Kernel) -> Dim:
        """The whole kernel is one unit."""
        return 1

    def scratch_of(self, kernel: Kernel) -> Dim:
        """No buffer is in a cache."""
        return 0

    def emit(self, kernels: Sequence[tuple[Kernel, str]]) -> str:
        return "\n".join(f"{MARK}{comment!r}\n{print_kernel(kernel)}" for kernel, comment in kernels)

    def compiler(self, options: Options) -> TextCompiler:
        return TextCompiler()


class TextCompiler:
    """A binary is the text without its comments."""

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        return [_without_comments(source).encode() for source in sources]

    def stop(self) -> None:
        """Does nothing: no process runs."""


def _without_comments(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.startswith(MARK))


register_target(NAME, lambda options: AbacusTarget())
