"""The interface of executors: objects that run an executable for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphwright.errors import Diagnostic, FeedError, GraphwrightError, ReferenceFault
from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.executable.target_code import TargetCode
from graphwright.ir.arrays import Array, np
from graphwright.records import dataclass, replace

if TYPE_CHECKING:
    from graphwright._native import PlanInfo

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of all inputs, in order."""
REFERENCE_FAULTS: Final = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""The exceptions that references raise for data that they reject: those of NumPy."""


class RunError(GraphwrightError):
    """A run failed after it began: a kernel rejected its data, or the model took a branch that cannot run."""


def reference_fault(error: Exception, location: str) -> RunError:
    """The error for a node at ``location`` whose reference raised ``error``; those of plugins are named by
    file and line.
    """
    if isinstance(error, ReferenceFault):
        known = error.diagnostic
        return RunError(Diagnostic(known.code, f"{known.message} (node {location})", known.where, known.hint))
    if isinstance(error, MemoryError):
        return out_of_memory(error, location)
    return RunError(Diagnostic("reference", f"{type(error).__name__}: {error}", location))


def out_of_memory(error: Exception, location: str = "") -> RunError:
    """The error for a run, or for its node at ``location``, that could not allocate memory."""
    hint = "feed smaller inputs, or compile with memory_budget"
    return RunError(Diagnostic("memory", f"not enough memory: {error}", location, hint))


@dataclass(frozen=True)
class ProgramPlan:
    """A program of a model, and its plan for inputs of ``shapes``; both are None if only a run knows the
    sizes.
    """

    name: str
    """Distinguishes it from other programs of the model; empty if it is the only one."""
    program: Program
    target: TargetCode
    shapes: Shapes | None
    plan: PlanInfo | None

    def within(self, name: str) -> ProgramPlan:
        """The same plan, with ``name`` put before its own name."""
        return replace(self, name=", ".join(filter(None, (name, self.name))))


class FastPath(Protocol):
    """Runs arrays that already have the dtype and memory layout that the executor needs.

    It returns None for any other arguments and if the run fails: the caller then calls :meth:`Executor.run`,
    which converts arguments and explains errors.
    """

    threads: int

    def __call__(self, *arrays: object) -> tuple[Array, ...] | None:
        """Runs on arrays in the order of the inputs."""

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, Array] | None:
        """Runs on a dict of arrays and returns the outputs called ``names``, or all of them. Outputs that
        the dict ``out`` has arrays for are written to these.
        """

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        """As :meth:`named`, but returns a list in the order of ``names``."""


class NoFastPath(FastPath):
    """The fast path of an executor that has none: it always returns None."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, *arrays: object) -> None:
        """Returns None: there is no fast path."""

    def named(self, feeds: object, names: object, out: object = None, /) -> None:
        """Returns None: there is no fast path."""

    def listed(self, feeds: object, names: object, /) -> None:
        """Returns None: there is no fast path."""


def shapes_of(inputs: Sequence[TensorSpec]) -> Callable[[Sequence[Any]], Shapes]:
    """A function from the values of ``inputs`` to their shapes. Values of container types (lists, dicts,
    None) count as scalars.
    """
    held = [spec.dtype.element is not None for spec in inputs]
    if any(held):
        return lambda values: tuple(
            () if inner else value.shape for value, inner in zip(values, held, strict=True)
        )
    return lambda arrays: tuple([array.shape for array in arrays])


def write_output(array: Array, target: Array | None, what: str) -> Array:
    """Copies ``array`` to the caller's array ``target`` and returns this; returns ``array`` without a target.

    Raises FeedError, which begins with ``what``, if the shapes differ.
    """
    if target is None or target is array:
        return array
    if target.shape != array.shape:
        message = f"{what} has shape {array.shape}, but the array for it has shape {target.shape}"
        raise FeedError(Diagnostic("feed-shape", message, hint="give an array of the shape of the output"))
    np.copyto(target, array, casting="no")
    return target


def update_states(states: Sequence[Array], values: Sequence[Array]) -> None:
    """Writes ``values`` to the arrays ``states``. Values may overlap any of these arrays."""
    for state, value in zip(states, apart_from(states, values), strict=True):
        np.copyto(state, value, casting="no")


def apart_from(states: Sequence[Array], values: Sequence[Array]) -> list[Array]:
    """``values``, copied where they may overlap any of the arrays ``states``."""
    return [v.copy() if any(np.may_share_memory(v, state) for state in states) else v for v in values]


class Executor(Protocol):
    """Runs an executable. It takes C-contiguous arrays of the right dtypes in the order of the inputs; arrays
    of states are writable, and a run updates them.
    """

    def fast_path(self, threads: int) -> FastPath:
        """The fast path for runs on ``threads`` threads; by default there is none."""
        return NoFastPath(threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        """Runs once. Outputs for which no array is given are new arrays. Raises FeedError if shapes do not
        fit, and RunError.
        """

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        """The programs that a run on inputs of ``shapes`` may enter, with their plans; all programs if
        ``shapes`` is None. Nothing runs. Executors that plan no memory return an empty list. Raises
        FeedError.
        """
        return []

    def trim(self) -> int:
        """Frees plans and memory that no run uses. Returns the bytes of arenas given back to the system."""

    def stats(self) -> dict[str, int]:
        """Counters: ``runs``, ``host_calls`` (calls into Python), those of the plan cache, and
        ``arena_bytes``, the memory of arenas, which all executors of a model share.
        """


def total(stats: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of the counters of several executors; ``arena_bytes`` is shared, so its maximum counts."""
    counted: Counter[str] = Counter(runs=0, host_calls=0)
    arena = 0
    for each in stats:
        counted.update(each)
        arena = max(arena, each.get("arena_bytes", 0))
    return {**counted, "arena_bytes": arena}
