"""Traverses decision trees, eight traversals in parallel to hide latency."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import Extent, arguments, dense, within
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

_BLOCK: Final = 64
"""Rows per unit of the grid: each tree is read once for all of them."""
_MAX_SCORES: Final = 1 << 13
"""The most scores of the rows of a unit; with many targets, a unit has fewer rows."""
_STEP_CYCLES: Final = 4


class Fold(IntEnum):
    """How the votes for one target are combined."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3


ABI: Final = Abi(
    "trees",
    ("x", "nodes", "trees", "votes", "targets", "weights", "scores"),
    ("element_size", "fold", "rows", "features", "trees", "size", "block", "nodes", "votes"),
)


@dataclass(frozen=True)
class Trees(KernelCall):
    """Scores [rows, size] of x [rows, features]: the combined votes of the leaf of each tree, in f64.

    Operands: x, nodes, trees, votes, targets, weights, scores. All integers are i32.

    - ``nodes``: 16 bytes each. A split value of x's type (padded if it is f32), the byte offset of a feature
      in a row, and the byte offset of the child for features that are at most the split. The other child
      follows that child. The sign bit of the feature offset is set if NaN counts as at most the split. A leaf
      has a split of +inf and itself as child.
    - ``trees``: the offset of the root, and the depth, of each tree.
    - ``votes``: the range of each node's votes in ``targets`` and ``weights``.
    """

    SYMBOL: ClassVar[str] = "gw_trees"

    element_size: int
    fold: Fold
    rows: Dim
    features: Dim
    trees: int
    size: int
    depth: int
    """The mean depth of the trees."""
    nodes: int
    votes: int
    """The number of votes of all nodes."""

    @property
    def block(self) -> int:
        """The rows per unit."""
        return max(8, min(_BLOCK, _MAX_SCORES // self.size))

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        return ABI.values(
            element_size=self.element_size,
            fold=int(self.fold),
            rows=self.rows,
            features=self.features,
            trees=self.trees,
            size=self.size,
            block=self.block,
            nodes=self.nodes,
            votes=self.votes,
        )

    @property
    def grid(self) -> Dim:
        """The number of units: blocks of rows."""
        return ceildiv(self.rows, self.block)

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of the scores of a block, in f64."""
        return 8 * self.block * self.size

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds: steps between nodes, then the sums."""
        steps = self.trees * (self.depth + 2) * _STEP_CYCLES
        return predict(Work(cycles=self.rows * (steps + 4 * self.size)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that ``gw_trees`` accesses. Offsets in nodes, trees and votes are trusted: the compiler
    validated them.
    """
    a = arguments(*ABI.args)
    return (
        Extent(
            Trees.SYMBOL,
            ABI.args,
            ABI.ordered(
                x=dense(a.element_size, a.rows, a.features),
                nodes=dense(16, a.nodes),
                trees=dense(8, a.trees),
                votes=dense(8, a.nodes),
                targets=dense(4, a.votes),
                weights=dense(a.element_size, a.votes),
                scores=dense(a.element_size, a.rows, a.size),
            ),
            grid=ceildiv(a.rows, a.block),
            scratch=8 * a.block * a.size,
            bounds=within((1, _MAX_SCORES), "block"),
            choices={"element_size": (4, 8), "fold": tuple(map(int, Fold))},
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``trees.c``."""
    folds = ", ".join(f"{fold.name} = {fold.value}" for fold in Fold)
    return f"{ABI.c_text()}enum {{ {folds} }};\n"
