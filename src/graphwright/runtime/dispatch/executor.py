"""Dispatch by the input shapes of a run: chooses a compiled program, and compiles one for other shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from graphwright.errors import Collector, Diagnostic, FeedError, ToolchainError
from graphwright.executable.nodes import Dispatch, Executable, accepts
from graphwright.executable.specs import TensorSpec, shapes_text
from graphwright.ir.arrays import Array
from graphwright.records import replace
from graphwright.runtime.dispatch.case_table import REMEMBERED, Case, CaseTable
from graphwright.runtime.dispatch.shaped_fast_path import ShapedFastPath
from graphwright.runtime.executor import Executor, FastPath, NoFastPath, ProgramPlan, Shapes, shapes_of
from graphwright.support.fork_lock import ForkLock

T = TypeVar("T")


Compile = Callable[[Shapes], Case]
"""Compiles a case for shapes that no case accepts. Raises FeedError if they do not fit the model."""


class DispatchExecutor(Executor):
    """Runs the first case that accepts the input shapes and whose guards they satisfy.

    ``compile`` makes a case for shapes that no case accepts; without it, they are an error.
    """

    def __init__(self, dispatch: Dispatch, cases: Sequence[Case], compile: Compile | None) -> None:
        self.cases: Final = cases
        self._inputs, self._compile, self._table = dispatch.inputs, compile, CaseTable(cases)
        self._shapes, self._compiling = shapes_of(dispatch.inputs), ForkLock()

    def fast_path(self, threads: int) -> FastPath:
        """The fast path of the only case, which rejects shapes that are not its own; else one that
        dispatches.
        """
        if len(self.cases) == 1:
            return self.cases[0].executor.fast_path(threads)
        return _DispatchFastPath(self, [spec.name for spec in self._inputs], threads)

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, lambda executor: executor.run(arrays, outputs, threads))

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        """The plans of the case that accepts ``shapes``, which may be compiled now; of all cases if it is
        None.
        """
        if shapes is not None:
            return self._on_first_match(shapes, lambda executor: executor.plans(shapes, threads))
        return [
            plan.within(shapes_text(case.executable.inputs))
            for case in self._table.all()
            for plan in case.executor.plans(None, threads)
        ]

    def trim(self) -> int:
        return sum(case.executor.trim() for case in self._table.all())

    def stats(self) -> dict[str, int]:
        return self._table.stats()

    def case_for(self, shapes: Shapes) -> Case | None:
        """The case that accepts ``shapes``, as far as known without a run: one of its guards may still fail.
        None for cases compiled at run time, which may be dropped at any time.
        """
        known = self._table.known(shapes)
        if known is not None:
            return known if known in self.cases else None
        return next((case for case in self.cases if accepts(case.executable, shapes)), None)

    def guards_hold(self, case: Case, shapes: Shapes) -> bool:
        """Whether ``shapes`` are known to satisfy the guards of ``case``."""
        return not case.executable.guards or self._table.ran(shapes) is case

    def _run(self, arrays: Sequence[Array], run: Callable[[Executor], T]) -> T:
        return self._on_first_match(self._shapes(arrays), run)

    def _on_first_match(self, shapes: Shapes, run: Callable[[Executor], T]) -> T:
        """The result of ``run`` on the first case that accepts ``shapes`` and whose guards they satisfy."""
        broken: FeedError | None = None
        for case in self._candidates(shapes):
            try:
                result = run(case.executor)
            except FeedError as error:
                if error.diagnostics[0].code != "guard":
                    raise
                broken = error
                continue
            self._table.remember(shapes, case)
            return result
        raise self._no_case(shapes) if broken is None or self._compile is None else broken

    def _candidates(self, shapes: Shapes) -> Iterator[Case]:
        """The cases that may accept ``shapes``; a new one is compiled after the guards of all others
        failed.
        """
        known = self._table.known(shapes)
        tried = [] if known is None else [known]
        yield from tried
        for case in self._table.all():
            if case not in tried and accepts(case.executable, shapes):
                tried.append(case)
                yield case
        is_new = self._compile is None
        while not is_new:
            case, is_new = self._untried_case(shapes, tried)
            tried.append(case)
            yield case

    def _untried_case(self, shapes: Shapes, tried: Sequence[Case]) -> tuple[Case, bool]:
        """A case that accepts ``shapes`` and was not ``tried``, and whether it is new: another thread may
        have compiled one in the meantime.
        """
        with self._compiling:  # runs of known shapes continue
            others = (case for case in self._table.all() if case not in tried)
            found = next((case for case in others if accepts(case.executable, shapes)), None)
            return (self._add_case(shapes), True) if found is None else (found, False)

    def _add_case(self, shapes: Shapes) -> Case:
        assert self._compile is not None
        try:
            variant = self._compile(shapes)
        except ToolchainError as error:
            raise self._not_compiled(shapes, error) from error
        # without the guard, the graph itself constrains the sizes
        if not accepts(variant.executable, shapes):
            _check_sizes(variant.executable.inputs, shapes)
        self._table.add(variant)
        return variant

    def _no_case(self, shapes: Shapes) -> FeedError:
        """The error for ``shapes`` that no case accepts."""
        static = self._table.static.values()
        is_exact = len(static) == len(self.cases)
        if not is_exact:
            _check_sizes(self._inputs, shapes)
        gears = "; ".join(shapes_text(case.executable.inputs) for case in static)
        message = f"no gear {'matches' if is_exact else 'accepts'} {self._text(shapes)}"
        return FeedError(Diagnostic("gear", message, hint=f"the gears are {gears}"))

    def _not_compiled(self, shapes: Shapes, error: ToolchainError) -> ToolchainError:
        """The error for ``shapes`` that no program could be compiled for."""
        held = "; ".join(_takes_text(case.executable) for case in self.cases)
        message = f"no program in the package accepts {self._text(shapes)}, and none can be compiled here"
        return ToolchainError(
            Diagnostic("no-variant", message, "", f"the package has programs for {held}"), *error.diagnostics
        )

    def _text(self, shapes: Shapes) -> str:
        return shapes_text([replace(s, shape=shape) for s, shape in zip(self._inputs, shapes, strict=True)])


def _takes_text(executable: Executable) -> str:
    """The input shapes that an executable accepts, and its guards."""
    return " where ".join(filter(None, (shapes_text(executable.inputs), " and ".join(executable.guards))))


def _check_sizes(inputs: Sequence[TensorSpec], shapes: Shapes) -> None:
    """Raises FeedError if ranks or sizes differ from those of ``inputs``, or one symbol has two sizes."""
    faults = Collector(FeedError)
    sizes: dict[str, int] = {}
    for spec, shape in zip(inputs, shapes, strict=True):
        dims = spec.shape or ()
        if len(dims) != len(shape):
            ranks = f"must have rank {len(dims)}, but has rank {len(shape)}"
            faults.add("feed-shape", f"{spec.name!r} {ranks}")
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=False)):
            known = dim if isinstance(dim, int) else sizes.setdefault(dim, size)
            if known != size:
                faults.add("feed-shape", f"axis {axis} of {spec.name!r} must be {known}, but is {size}")
    faults.raise_if_any()


class _DispatchFastPath(ShapedFastPath):
    """Forwards to the fast path of the case for the input shapes."""

    def __init__(self, dispatch: DispatchExecutor, names: Sequence[str], threads: int) -> None:
        super().__init__(names, NoFastPath(threads))
        self._dispatch, self._threads = dispatch, threads
        self._paths: dict[Shapes, FastPath] = {}
        self._by_executor: dict[Executor, FastPath] = {}

    @property
    def threads(self) -> int:
        """The number of threads of a run."""
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._threads = count
        for path in list(self._by_executor.values()):  # a copy, as other threads may add entries
            path.threads = count

    def path(self, shapes: Shapes) -> FastPath:
        return self._paths.get(shapes) or self._new_path(shapes)

    def _new_path(self, shapes: Shapes) -> FastPath:
        """The fast path for new ``shapes``."""
        case = self._dispatch.case_for(shapes) if len(shapes) == len(self._names) else None
        if case is None:
            return self._otherwise
        path = self._by_executor.get(case.executor)
        if path is None:
            path = self._by_executor.setdefault(case.executor, case.executor.fast_path(self._threads))
        if self._dispatch.guards_hold(case, shapes) and len(self._paths) < REMEMBERED:
            self._paths[shapes] = path
        return path
