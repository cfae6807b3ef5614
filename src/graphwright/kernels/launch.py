"""Launches of chosen kernels with symbolic sizes: the interface between kernel selection and lowering."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.library.kernel_call import KernelCall
from graphwright.kernels.ref import KernelRef
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa


@dataclass(frozen=True)
class Hook:
    """An epilogue that a library kernel calls on each finished tile. Its operands and arguments follow those
    of the kernel.
    """

    kernel: KernelRef
    operands: tuple[Value, ...]
    writes: tuple[int, ...]
    args: tuple[Dim, ...]


@dataclass(frozen=True)
class ByteRange:
    """The bytes of a value from ``offset`` on."""

    value: Value
    offset: Dim = 0


@dataclass(frozen=True)
class Launch:
    """One kernel call over ``grid`` independent units. ``scratch`` is in bytes per thread, ``work`` the
    predicted time on one core in nanoseconds.
    """

    kernel: KernelRef
    operands: tuple[Value | ByteRange | KernelRef | None, ...]
    """A kernel is passed as a pointer to its function."""
    writes: tuple[int, ...]
    """Positions in ``operands`` that are outputs."""
    args: tuple[Dim, ...]
    grid: Dim
    scratch: Dim = 0
    work: Dim = 0
    takes_hook: bool = False
    """Whether the kernel takes a function pointer (or null) after its operands."""
    hook: Hook | None = None
    in_place: tuple[tuple[Value, Value], ...] = ()
    """Pairs (output, input) that may share memory: each element of the input is read before the element at
    the same location is written.
    """
    operations: Dim | None = None
    """Multiplications and additions, for profiles, of one of the launches of :func:`run_either`; None: the
    longest launch of the step does those of its nodes.
    """


def launch_of(
    call: KernelCall, symbol: str, operands: tuple[Value | None, ...], writes: tuple[int, ...], isa: Isa
) -> Launch:
    """The launch of the library kernel ``symbol`` that ``call`` describes."""
    scratch, work = call.scratch_bytes(isa), call.work_ns(isa)
    return Launch(KernelRef(symbol), operands, writes, call.args, call.grid, scratch, work)


@dataclass(frozen=True)
class Copy:
    """A copy of the bytes of ``source`` to ``target`` at ``offset``; ``operand`` distinguishes equal copies
    of one node.
    """

    source: Value
    target: Value
    offset: Dim = 0
    operand: int = 0


@dataclass(frozen=True)
class Run:
    """A node that is computed by kernels, one after the other."""

    launches: tuple[Launch | Copy, ...]
    slots: frozenset[int] = frozenset()
    """Positions of copies in ``launches``. Such a copy is omitted if its source is computed in its place in
    the result.
    """
    temporaries: tuple[Value, ...] = ()
    """Values that are in no graph, which the launches pass to each other in memory private to the node."""
    uses_temporaries: Dim = 1
    """1, or 0 for sizes with which no launch uses the temporaries, so that they need no memory; see
    :func:`run_either`.
    """


def run_either(
    pays: Dim, launch: Launch, others: Sequence[tuple[Launch, Dim]], temporaries: tuple[Value, ...] = ()
) -> Run:
    """Runs ``launch`` for sizes where ``pays`` is 1. Where it is 0, runs ``others``, which compute the same:
    launches with their numbers of operations, which pass each other ``temporaries``. Launches that do not run
    have empty grids.
    """
    apart = [_only_where(1 - pays, other, operations) for other, operations in others]
    whole = _only_where(pays, launch, sum((operations for _, operations in others), start=0))
    return Run((*apart, whole), temporaries=temporaries, uses_temporaries=1 - pays)


def _only_where(holds: Dim, launch: Launch, operations: Dim) -> Launch:
    return replace(
        launch,
        grid=launch.grid * holds,
        scratch=launch.scratch * holds,
        work=launch.work * holds,
        operations=operations * holds,
    )


@dataclass(frozen=True)
class Alias:
    """A node whose output is a view of its input, from byte ``offset`` on."""

    source: Value
    offset: Dim = 0


@dataclass(frozen=True)
class Branch:
    """A branch at run time: runs the steps of the one of ``blocks`` that ``index`` selects.

    An i32 or i64 is the index of a block; the last block runs if it is out of range. A bool selects the first
    block if it is true, else the second.
    """

    index: Value
    blocks: tuple[tuple[SelectedNode, ...], ...]


@dataclass(frozen=True)
class CarriedValue:
    """A loop-carried value: ``received`` is ``start`` in the first iteration, and the ``result`` of the
    iteration before in later ones; ``output`` is the result of the last iteration.
    """

    start: Value
    received: Value
    result: Value
    output: Value


@dataclass(frozen=True)
class NativeLoop:
    """A loop over ``steps``. ``number`` is the index of the iteration, which the body can read.

    It ends after ``trips`` iterations, or as many as the value ``limit`` says, and when ``condition``, which
    is one of ``carried``, is false. ``rows`` are pairs of a result and the scan output to which each
    iteration appends it as a row. ``shared`` are pairs of a value outside the loop that the body reads, and
    its name inside.
    """

    steps: tuple[SelectedNode, ...]
    number: Value
    carried: tuple[CarriedValue, ...]
    rows: tuple[tuple[Value, Value], ...]
    shared: tuple[tuple[Value, Value], ...]
    trips: Dim | None = None
    limit: Value | None = None
    condition: Value | None = None


@dataclass(frozen=True)
class Host:
    """A node that runs on its NumPy reference in Python."""

    reason: str


@dataclass(frozen=True)
class Alternative:
    """Kernels that could compute a node, and their predicted time on one core in nanoseconds."""

    kernels: tuple[str, ...]
    ns: int


@dataclass(frozen=True)
class SelectedNode:
    """A node, and the implementation that was selected for it: one step of a run."""

    node: Node
    action: Run | Alias | Branch | NativeLoop | Host
    alternatives: tuple[Alternative, ...] = ()
    """The implementations that apply, with the chosen one first; empty if only one applies."""
    before: tuple[Node, ...] = ()
    """Earlier nodes that the step computes as well."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes that the step computes."""
        return *self.before, self.node

    @property
    def location(self) -> str:
        """The names of the nodes, for errors and reports."""
        return ", ".join(node.location for node in self.nodes)

    @property
    def blocks(self) -> tuple[tuple[SelectedNode, ...], ...]:
        """The steps of its regions."""
        if isinstance(self.action, Branch):
            return self.action.blocks
        return (self.action.steps,) if isinstance(self.action, NativeLoop) else ()
