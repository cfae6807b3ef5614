"""Choices by the shapes of a run: programs for some shapes, and what is compiled for others."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from graphwright.errors import Collector, Diagnostic, FeedError, ToolchainError
from graphwright.executable.nodes import Dispatch, Executable, accepts
from graphwright.executable.specs import TensorSpec, shapes_text, static_shapes
from graphwright.ir.arrays import Array
from graphwright.records import replace
from graphwright.runtime.executor import (
    Executor,
    FastPath,
    ProgramPlan,
    Shapes,
    shapes_of,
    total,
)
from graphwright.support.fork_lock import ForkLock

T = TypeVar("T")
REMEMBERED: Final = 256
"""Shapes whose case is known without looking for it again; those used longest ago are forgotten."""
MOST_COMPILED: Final = 16
"""Cases compiled for shapes of runs that are kept; the one used longest ago goes first."""
_SHAPE: Final = attrgetter("shape")


class Case:
    """An executable and what runs it; equal to itself alone."""

    def __init__(self, executable: Executable, executor: Executor) -> None:
        self.executable, self.executor = executable, executor


Compile = Callable[[Shapes], Case]
"""Compiles what takes shapes that no case takes. Raises FeedError where they do not fit the model."""


class DispatchExecutor(Executor):
    """Runs the first case that takes the shapes at hand, and no guard of which they break.

    Without ``compile`` shapes that none takes are an error; else it makes the case that takes them.
    """

    def __init__(self, dispatch: Dispatch, cases: Sequence[Case], compile: Compile | None = None) -> None:
        self.cases: Final = cases
        self._inputs, self._compile = dispatch.inputs, compile
        self._static = {
            shapes: case for case in cases if (shapes := static_shapes(case.executable.inputs)) is not None
        }
        self._compiled: list[Case] = []
        """The one used last comes last."""
        self._known: OrderedDict[Shapes, Case] = OrderedDict()
        self._gone: Counter[str] = Counter()
        """What compiled cases counted that are no longer kept."""
        self._shapes = shapes_of(dispatch.inputs)
        self._table, self._compiling = ForkLock(), ForkLock()

    def fast_path(self, threads: int) -> FastPath:
        """That of the only case, which refuses all shapes but its own; else one that looks at shapes."""
        if len(self.cases) == 1:
            return self.cases[0].executor.fast_path(threads)
        return DispatchFastPath(self, [spec.name for spec in self._inputs], threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, lambda executor: executor.run(arrays, outputs, threads))

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        """Of the case that takes ``shapes``, which may be compiled now; of all cases if that is None."""
        if shapes is not None:
            return self._first(shapes, lambda executor: executor.plans(shapes, threads))
        return [
            plan.within(shapes_text(case.executable.inputs))
            for case in self._all()
            for plan in case.executor.plans(None, threads)
        ]

    def trim(self) -> int:
        return sum(case.executor.trim() for case in self._all())

    def stats(self) -> dict[str, int]:
        counted = total([self._gone, *(case.executor.stats() for case in self._all())])
        return {**counted, "cases": len(self.cases) + len(self._compiled)}

    def case_for(self, shapes: Shapes) -> Case | None:
        """What runs ``shapes``, as far as that is known without a run: a guard may refuse them yet. None for
        what was compiled in a run, which is not kept for long.
        """
        known = self._static.get(shapes) or self._known.get(shapes)
        if known is not None:
            return known if known in self.cases else None
        return next((case for case in self.cases if accepts(case.executable, shapes)), None)

    def is_sure(self, case: Case, shapes: Shapes) -> bool:
        """Whether no guard of ``case`` refuses ``shapes``, as far as that is known without a run."""
        return not case.executable.guards or self._known.get(shapes) is case

    def _run(self, arrays: Sequence[Array], run: Callable[[Executor], T]) -> T:
        return self._first(self._shapes(arrays), run)

    def _first(self, shapes: Shapes, run: Callable[[Executor], T]) -> T:
        """What ``run`` makes of the first case that takes ``shapes`` and refuses them by no guard."""
        broken: FeedError | None = None
        for case in self._candidates(shapes):
            try:
                result = run(case.executor)
            except FeedError as error:
                if error.diagnostics[0].code != "guard":
                    raise
                broken = error
                continue
            self._remember(shapes, case)
            return result
        raise self._misfit(shapes) if broken is None or self._compile is None else broken

    def _candidates(self, shapes: Shapes) -> Iterator[Case]:
        """The cases that may take ``shapes``; a new one is compiled where all others are asked for in
        vain.
        """
        known = self._static.get(shapes) or self._recalled(shapes)
        tried = [] if known is None else [known]
        yield from tried
        for case in self._all():
            if case not in tried and accepts(case.executable, shapes):
                tried.append(case)
                yield case
        is_new = self._compile is None
        while not is_new:
            case, is_new = self._another(shapes, tried)
            tried.append(case)
            yield case

    def _another(self, shapes: Shapes, tried: Sequence[Case]) -> tuple[Case, bool]:
        """A case that takes ``shapes`` and was not ``tried``: one that another thread compiled meanwhile, or
        a new one; and whether it is new.
        """
        with self._compiling:  # runs of known shapes go on meanwhile
            others = (case for case in self._all() if case not in tried)
            found = next((case for case in others if accepts(case.executable, shapes)), None)
            return (self._made(shapes), True) if found is None else (found, False)

    def _made(self, shapes: Shapes) -> Case:
        assert self._compile is not None
        try:
            made = self._compile(shapes)
        except ToolchainError as error:
            raise self._not_compiled(shapes, error) from error
        if not accepts(made.executable, shapes):  # what breaks a guard left a form that demands other sizes
            _check_sizes(made.executable.inputs, shapes)
        with self._table:
            self._compiled.append(made)
            if len(self._compiled) > MOST_COMPILED:
                gone = self._compiled.pop(0)
                self._gone.update(gone.executor.stats())
                del self._gone["arena_bytes"]
                for known in [known for known, case in self._known.items() if case is gone]:
                    del self._known[known]
        return made

    def _all(self) -> list[Case]:
        with self._table:
            return [*self.cases, *self._compiled]

    def _recalled(self, shapes: Shapes) -> Case | None:
        with self._table:
            case = self._known.get(shapes)
            if case is not None:
                self._known.move_to_end(shapes)
            return case

    def _remember(self, shapes: Shapes, case: Case) -> None:
        with self._table:
            if case in self._compiled:
                self._compiled.remove(case)
                self._compiled.append(case)
            self._known[shapes] = case
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _misfit(self, shapes: Shapes) -> FeedError:
        """That no case takes ``shapes``."""
        is_exact = len(self._static) == len(self.cases)
        if not is_exact:
            _check_sizes(self._inputs, shapes)
        gears = "; ".join(shapes_text(case.executable.inputs) for case in self._static.values())
        message = f"no gear {'is for' if is_exact else 'holds'} {self._text(shapes)}"
        return FeedError(Diagnostic("gear", message, hint=f"the gears are {gears}"))

    def _not_compiled(self, shapes: Shapes, error: ToolchainError) -> ToolchainError:
        """That nothing could be compiled for ``shapes``."""
        held = "; ".join(_takes_text(case.executable) for case in self.cases)
        message = f"no program in the package takes {self._text(shapes)}, and none can be compiled here"
        return ToolchainError(
            Diagnostic("no-variant", message, "", f"it holds programs for {held}"), *error.diagnostics
        )

    def _text(self, shapes: Shapes) -> str:
        return shapes_text([replace(s, shape=shape) for s, shape in zip(self._inputs, shapes, strict=True)])


def _takes_text(executable: Executable) -> str:
    """The shapes that it takes, and what it assumes of them."""
    return " where ".join(filter(None, (shapes_text(executable.inputs), " and ".join(executable.guards))))


def _check_sizes(inputs: Sequence[TensorSpec], shapes: Shapes) -> None:
    """Raise FeedError where ``shapes`` have other ranks or numbers, or two numbers for one name."""
    faults = Collector(FeedError)
    sizes: dict[str, int] = {}
    for spec, shape in zip(inputs, shapes, strict=True):
        dims = spec.shape or ()
        if len(dims) != len(shape):
            faults.add("feed-shape", f"input {spec.name!r} has {len(shape)} axes, expected {len(dims)}")
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=False)):
            known = dim if isinstance(dim, int) else sizes.setdefault(dim, size)
            if known != size:
                faults.add("feed-shape", f"axis {axis} of input {spec.name!r} is {known}, not {size}")
    faults.raise_if_any()


class DispatchFastPath(FastPath):
    """The fast path of the case for the shapes at hand."""

    def __init__(self, dispatch: DispatchExecutor, names: Sequence[str], threads: int) -> None:
        self._dispatch, self._names, self._threads = dispatch, names, threads
        self._paths: dict[Shapes, FastPath] = {}
        self._by_executor: dict[Executor, FastPath] = {}

    @property
    def threads(self) -> int:
        """Of a run."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = count
        for path in list(self._by_executor.values()):  # other threads may add some
            path.threads = count

    def __call__(self, *arrays: object) -> tuple[Array, ...] | None:
        try:
            path = self._paths.get(tuple(map(_SHAPE, arrays))) or self._found(arrays)
        except (AttributeError, TypeError):  # what is no array
            return None
        return None if path is None else path(*arrays)

    def named(self, feeds: object, names: object, out: object = None, /) -> dict[str, Array] | None:
        path = self._for_feeds(feeds)
        return None if path is None else path.named(feeds, names, out)

    def listed(self, feeds: object, names: object, /) -> list[Array] | None:
        path = self._for_feeds(feeds)
        return None if path is None else path.listed(feeds, names)

    def _for_feeds(self, feeds: object) -> FastPath | None:
        if type(feeds) is not dict:
            return None
        try:
            arrays = [feeds[name] for name in self._names]
            return self._paths.get(tuple(map(_SHAPE, arrays))) or self._found(arrays)
        except (KeyError, AttributeError, TypeError):
            return None

    def _found(self, arrays: Sequence[object]) -> FastPath | None:
        """The fast path for arrays of new shapes."""
        shapes: Shapes = tuple(map(_SHAPE, arrays))
        case = self._dispatch.case_for(shapes) if len(shapes) == len(self._names) else None
        if case is None:
            return None
        path = self._by_executor.get(case.executor)
        if path is None:
            path = self._by_executor.setdefault(case.executor, case.executor.fast_path(self._threads))
        if self._dispatch.is_sure(case, shapes) and len(self._paths) < REMEMBERED:
            self._paths[shapes] = path
        return path
