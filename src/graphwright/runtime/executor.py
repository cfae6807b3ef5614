"""What runs an executable, as a model sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphwright.errors import Diagnostic, FeedError, GraphwrightError
from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.executable.target_code import TargetCode
from graphwright.ir.arrays import Array, np
from graphwright.records import dataclass, replace

if TYPE_CHECKING:
    from graphwright._native import PlanInfo

Shapes = tuple[tuple[int, ...], ...]
"""Of all inputs, in their order."""
REFERENCE_FAULTS: Final = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What references raise for data that they cannot take: what NumPy does."""


class RunError(GraphwrightError):
    """A run that began could not end: a kernel refused its data, or a branch was taken that cannot run."""


def reference_fault(error: Exception, place: str) -> RunError:
    """That the reference of the node at ``place`` raised ``error``; a user's own by file and line."""
    known: Diagnostic | None = getattr(error, "diagnostic", None)
    if known is not None:
        return RunError(Diagnostic(known.code, f"{known.message} (node {place})", known.where, known.hint))
    return RunError(Diagnostic("reference", f"{type(error).__name__}: {error}", place))


@dataclass(frozen=True)
class ProgramPlan:
    """A program of a model, and its plan for inputs of ``shapes``: both None where a run finds sizes."""

    name: str
    """What tells it from other programs of the model; empty where it is the only one."""
    program: Program
    target: TargetCode
    shapes: Shapes | None
    plan: PlanInfo | None

    def within(self, name: str) -> ProgramPlan:
        """It, as a part of what is called ``name``."""
        return replace(self, name=", ".join(filter(None, (name, self.name))))


class FastPath(Protocol):
    """Runs arrays that are just as the executor takes them, and returns None for all others, and where a run
    fails: :meth:`Executor.run` has words for what is wrong."""

    threads: int

    def __call__(self, *arrays: object) -> tuple[Array, ...] | None:
        """A run on arrays in the order of the inputs."""

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, Array] | None:
        """A run on a dict of arrays: the outputs called ``names``, or all; those that the dict ``out`` has
        arrays for are written there.
        """

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        """As :meth:`named`, in the order of ``names``."""


class NoFastPath(FastPath):
    """That of an executor that has none: it runs nothing."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, *arrays: object) -> None:
        """None."""

    def named(self, feeds: object, names: object, out: object = None, /) -> None:
        """None."""

    def listed(self, feeds: object, names: object, /) -> None:
        """None."""


def shapes_of(inputs: Sequence[TensorSpec]) -> Callable[[Sequence[Any]], Shapes]:
    """What gives the shapes of arrays for ``inputs``, among which lists and None stand for containers: these
    are scalars of their dtype.
    """
    held = [spec.dtype.element is not None for spec in inputs]
    if any(held):
        return lambda values: tuple(
            () if inner else value.shape for value, inner in zip(values, held, strict=True)
        )
    return lambda arrays: tuple([array.shape for array in arrays])


def handed_over(array: Array, target: Array | None, what: str) -> Array:
    """``array``, or the caller's ``target`` with its elements. Raises FeedError if that has another shape."""
    if target is None or target is array:
        return array
    if target.shape != array.shape:
        message = f"{what} has shape {array.shape}, not {target.shape}"
        raise FeedError(Diagnostic("feed-shape", message))
    np.copyto(target, array, casting="no")
    return target


def update(states: Sequence[Array], values: Sequence[Array]) -> None:
    """Let ``states`` hold ``values``, some of which may be such an array, or a part of it."""
    apart = [v.copy() if any(np.may_share_memory(v, state) for state in states) else v for v in values]
    for state, value in zip(states, apart, strict=True):
        np.copyto(state, value, casting="no")


class Executor(Protocol):
    """Runs an executable. Arrays come in the order of its inputs, of the right dtypes, C-contiguous; those of
    its states can be written, and a run updates them.
    """

    def fast_path(self, threads: int) -> FastPath:
        """The fast path for runs on ``threads`` threads."""

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        """One run; outputs not given are new arrays. Raises FeedError if shapes do not fit, and RunError."""

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        """The programs that a run on inputs of ``shapes`` may enter, with their plans; all that there are if
        it is None. Nothing runs. None are known of executors that plan no memory. Raises FeedError.
        """
        return []

    def trim(self) -> int:
        """Drop plans and memory that no run uses; the bytes of arenas that the system has back."""

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (entries into Python), plans and their cache; ``arena_bytes`` of
        the memory that all executors of a model share.
        """


def total(stats: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The counters of several executors as one's: they share one arena."""
    counted: Counter[str] = Counter(runs=0, host_calls=0)
    arena = 0
    for each in stats:
        counted.update(each)
        arena = max(arena, each.get("arena_bytes", 0))
    return {**counted, "arena_bytes": arena}
