"""What a chosen kernel needs to be called, in symbolic sizes: the link from kernel selection to lowering."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.ref import KernelRef
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Hook:
    """An epilogue that a library kernel calls on each finished tile; its operands and args follow the
    kernel's own.
    """

    kernel: KernelRef
    operands: tuple[Value, ...]
    writes: tuple[int, ...]
    args: tuple[Dim, ...]


@dataclass(frozen=True)
class ByteRange:
    """``bytes`` of a value from byte ``offset`` on."""

    value: Value
    offset: Dim = 0


@dataclass(frozen=True)
class Launch:
    """One kernel call over ``grid`` independent units. ``scratch`` in bytes per thread, ``work`` in
    nanoseconds of one core.
    """

    kernel: KernelRef
    operands: tuple[Value | ByteRange | KernelRef | None, ...]
    """A kernel is handed as a pointer to its function."""
    writes: tuple[int, ...]
    """Positions in ``operands`` that are outputs."""
    args: tuple[Dim, ...]
    grid: Dim
    scratch: Dim = 0
    work: Dim = 0
    takes_hook: bool = False
    """Whether the kernel expects a function pointer (or null) behind its operands."""
    hook: Hook | None = None
    in_place: tuple[tuple[Value, Value], ...] = ()
    """``(output, input)`` pairs that may share memory: each element is read at its own place before it is
    written.
    """
    operations: Dim | None = None
    """Multiplications and additions, for profiles, where sizes decide which launches of a step run; None: the
    longest launch of the step does those of its nodes.
    """


def only_where(holds: Dim, launch: Launch, operations: Dim) -> Launch:
    """``launch``, which does so many ``operations``, with nothing to do unless ``holds`` is 1."""
    return replace(
        launch,
        grid=launch.grid * holds,
        scratch=launch.scratch * holds,
        work=launch.work * holds,
        operations=operations * holds,
    )


@dataclass(frozen=True)
class Copy:
    """The bytes of ``source`` moved to ``target`` at ``offset``; ``operand`` tells equal copies of one node
    apart.
    """

    source: Value
    target: Value
    offset: Dim = 0
    operand: int = 0


@dataclass(frozen=True)
class Run:
    """A node done by kernels, one after the other."""

    launches: tuple[Launch | Copy, ...]
    slots: frozenset[int] = frozenset()
    """Positions of Copies in ``launches`` that need not run if their source is made in its slot at once."""
    temporaries: tuple[Value, ...] = ()
    """Values of no graph that the launches hand to each other; their memory is the node's alone."""
    uses_temporaries: Dim = 1
    """1, or 0 at sizes at which no launch has anything to do with them: they take no memory then."""


@dataclass(frozen=True)
class Alias:
    """A node whose output is memory of its input, from byte ``offset`` on."""

    source: Value
    offset: Dim = 0


@dataclass(frozen=True)
class Branch:
    """A choice at run time: the steps of one of ``blocks``, which ``index`` chooses.

    An i32 or i64 counts them from 0, and chooses the last if it counts none; a bool chooses the first if it
    holds, else the second.
    """

    index: Value
    blocks: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class CarriedValue:
    """What a loop's body hands to its next run: ``received`` is ``start`` first, later ``result``; after the
    last run that is ``output``.
    """

    start: Value
    received: Value
    result: Value
    output: Value


@dataclass(frozen=True)
class NativeLoop:
    """A loop: ``steps`` again and again. ``number`` counts its runs from 0 on, for the body to read.

    It ends after ``trips`` runs, or as many as ``limit`` holds; and when ``condition``, which is among
    ``handed``, does not hold. ``rows``: results that make a row of an output in each run. ``shared``: values
    that the body reads, and what they are inside.
    """

    steps: tuple[Step, ...]
    number: Value
    carried: tuple[CarriedValue, ...]
    rows: tuple[tuple[Value, Value], ...]
    shared: tuple[tuple[Value, Value], ...]
    trips: Dim | None = None
    limit: Value | None = None
    condition: Value | None = None


@dataclass(frozen=True)
class Host:
    """A node run on its NumPy reference, in Python: counted and shown."""

    reason: str


@dataclass(frozen=True)
class Alternative:
    """Kernels that could do a node, and the nanoseconds of one core that they are predicted to take."""

    kernels: tuple[str, ...]
    ns: int


@dataclass(frozen=True)
class Step:
    """A node and how it is done."""

    node: Node
    action: Run | Alias | Branch | NativeLoop | Host
    alternatives: tuple[Alternative, ...] = ()
    """What it was chosen from, itself first, where there is more than one way."""
    before: tuple[Node, ...] = ()
    """Nodes that are done by it as well."""

    @property
    def place(self) -> str:
        """The nodes, as errors and reports call them."""
        return ", ".join(node.place for node in (*self.before, self.node))

    @property
    def blocks(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of its regions."""
        if isinstance(self.action, Branch):
            return self.action.blocks
        return (self.action.steps,) if isinstance(self.action, NativeLoop) else ()
