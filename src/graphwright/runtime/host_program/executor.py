"""Runs host programs: calls of native programs, and between them nodes that run on their references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphwright import _native
from graphwright.errors import Diagnostic, FeedError, GraphwrightError, PackageError
from graphwright.executable.nodes import BindSize, CallHost, CallProgram, HostProgram, HostStep
from graphwright.ir.arrays import Array, np
from graphwright.ir.op.region_op import LoopCarried
from graphwright.ir.symbols import parse_constraint
from graphwright.runtime.executor import (
    Executor,
    ProgramPlan,
    Shapes,
    total,
    update_states,
    write_output,
)
from graphwright.runtime.host_program.bind_size import BindSizeRunner
from graphwright.runtime.host_program.steps import (
    CallHostRunner,
    CallProgramRunner,
    LoopValues,
    Run,
    Spec,
    StepRunner,
    contiguous,
)
from graphwright.support.fork_lock import ForkLock

Executors = Mapping[int, Executor]
"""The executor of each call's callee, by the call's number."""


class HostProgramExecutor(Executor):
    """Runs the steps of a host program in order; ``constants`` are the weights by digest.

    Raises PackageError if the host program is malformed.
    """

    def __init__(self, program: HostProgram, executors: Executors, constants: Mapping[str, Array]) -> None:
        self._program, self._executors = program, executors
        try:
            self._graph = _Graph(program, executors, constants)
        except GraphwrightError:
            raise
        except Exception as error:  # the text of an untrusted package can make ops raise anything
            message = f"the host program is malformed: {type(error).__name__}: {error}"
            raise PackageError(Diagnostic("bad-program", message, hint="compile the model again")) from error
        self._conditions = Conditions(program)
        self._counted: Counter[str] = Counter(runs=0, host_calls=0)
        self._lock = ForkLock()

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        return self._run(arrays, Run([], {}, threads, outputs))

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        """As :meth:`Executor.plans`. Plans that depend on data-dependent sizes are known only in a run."""
        sizes: dict[str, int] = {}
        if shapes is not None:
            for spec, shape in zip(self._program.inputs, shapes, strict=True):
                Spec(spec).bind(shape, sizes)
            self._conditions.check(sizes)
        return [
            plan.within(f"subgraph {call.number}")
            for call in self._program.calls()
            for plan in self._executors[call.number].plans(_shapes_in(call, sizes), threads)
        ]

    def trim(self) -> int:
        return sum(executor.trim() for executor in self._executors.values())

    def stats(self) -> dict[str, int]:
        """As :meth:`Executor.stats`; ``host_calls`` are nodes that ran on the host, and calls into Python by
        programs.
        """
        with self._lock:
            own = self._counted.copy()
        called = total([own, *(executor.stats() for executor in self._executors.values())])
        return {**called, "runs": own["runs"]}

    def _run(self, arrays: Sequence[Array], run: Run) -> list[Array]:
        results = self._graph.run(arrays, run, self._conditions)
        with self._lock:
            self._counted["runs"] += 1
            self._counted["host_calls"] += run.host_calls
        return results


class Conditions:
    """The guards and constraints of a host program on sizes that no single program sees together."""

    def __init__(self, program: HostProgram) -> None:
        self._guards = list(map(parse_constraint, program.guards))
        self._constraints = list(map(parse_constraint, program.constraints))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raises FeedError if the sizes known so far violate a guard or a constraint."""
        self.check_guards(sizes)
        broken = [(each, fault) for each in self._constraints if (fault := each.broken_by(sizes))]
        if broken:
            raise FeedError(*(Diagnostic("constraint", fault, each.node) for each, fault in broken))

    def check_guards(self, sizes: Mapping[str, int]) -> None:
        """Raises FeedError if the sizes known so far violate a guard."""
        for guard in self._guards:
            if guard.broken_by(sizes):
                raise FeedError(Diagnostic("guard", str(guard), guard.node))


class _Graph:
    """The host program of one graph: of the entry, or of the body of a region."""

    def __init__(self, program: HostProgram, executors: Executors, constants: Mapping[str, Array]) -> None:
        self._program = program
        self._constants = [(number, constants[digest]) for number, digest in program.constants]
        specs = [Spec(spec) for spec in program.values]
        self._inputs = specs[: program.input_count]
        self._steps = [
            (self._step(step, specs, executors, constants), ends)
            for step, ends in zip(program.steps, _ends(program), strict=True)
        ]
        calls = (step for step in program.steps if isinstance(step, CallProgram))
        maps = (step.outputs for step in program.steps if _makes_maps(step, specs))
        self._new = {value for outputs in (*(call.outputs for call in calls), *maps) for value in outputs}

    def _step(
        self,
        step: HostStep,
        specs: Sequence[Spec],
        executors: Executors,
        constants: Mapping[str, Array],
    ) -> StepRunner:
        if isinstance(step, BindSize):
            return BindSizeRunner(step)
        if isinstance(step, CallHost):
            bodies = [_Graph(body, executors, constants) for body in step.bodies]
            return CallHostRunner(step, specs, bodies)
        results = self._program.results
        indices = [results.index(number) if number in results else None for number in step.outputs]
        return CallProgramRunner(step, executors[step.number], indices)

    def run(self, arrays: Sequence[Any], run: Run, conditions: Conditions) -> list[Any]:
        """The outputs for ``arrays``: new arrays, or those of ``run.targets``. ``conditions`` are checked for
        the sizes of the inputs at the start, and for all sizes that the run has bound at the end.
        """
        self._receive(arrays, run)
        conditions.check(run.sizes)
        try:
            self._walk(run)
        except GraphwrightError:
            conditions.check_guards(run.sizes)  # another form of the model may run with these sizes
            raise
        conditions.check(run.sizes)
        results: list[Any] = []
        for k, number in enumerate(self._program.results):
            value, target = run.values[number], run.targets[k] if run.targets else None
            if target is None and not self._is_own(number, value, arrays, results):
                value = _copied(value)
            results.append(write_output(value, target, f"output {self._program.values[number].name!r}"))
        states = [arrays[state] for state, _ in self._program.updates]
        update_states(states, [run.values[number] for _, number in self._program.updates])
        return results

    def run_body(self, arrays: Sequence[Any], outer: Run) -> tuple[Any, ...]:
        """The outputs of a body for ``arrays``; they may share memory with each other and with inputs."""
        run = Run([], dict(outer.sizes), outer.threads)
        self._receive(arrays, run)
        self._walk(run)
        outer.host_calls += run.host_calls
        return tuple(run.values[number] for number in self._program.results)

    def native_loop(
        self, arrays: Sequence[Any], where: LoopCarried, limits: tuple[int, bool], outer: Run
    ) -> _native.NativeLoop | None:
        """A native loop over this body that starts from ``arrays``; None if a step has no native form."""
        run = Run([], dict(outer.sizes), outer.threads)
        self._receive(arrays, run)
        start = [contiguous(v) if isinstance(v, np.ndarray) else v for v in run.values]
        values = LoopValues(start, self._changing_sizes(where, outer.sizes), run.sizes)
        steps = [form for step, _ in self._steps if (form := step.native(values, run.threads)) is not None]
        if len(steps) < len(self._steps):
            return None
        gives, conditional, steps = self._program.results, where.result > 0, [*values.read, *steps]
        return _native.NativeLoop(steps, gives, values.values, where.count, conditional, *limits)

    def _changing_sizes(self, where: LoopCarried, known: Collection[str]) -> dict[str, tuple[int, int]]:
        """See :attr:`LoopValues.axes`; ``known`` are sizes from outside the loop."""
        received = list(enumerate(self._program.inputs))[where.received]
        axes = ((k, axis, dim) for k, spec in received for axis, dim in enumerate(spec.shape or ()))
        return {dim: (k, axis) for k, axis, dim in axes if isinstance(dim, str) and dim not in known}

    def _walk(self, run: Run) -> None:
        for step, ends in self._steps:
            step.run(run)
            for number in ends:
                run.values[number] = None

    def _receive(self, arrays: Sequence[Any], run: Run) -> None:
        values = run.values = [None] * len(self._program.values)
        for number, (spec, array) in enumerate(zip(self._inputs, arrays, strict=True)):
            spec.learn(array, run.sizes)
            values[number] = array
        for number, array in self._constants:
            values[number] = array

    def _is_own(self, number: int, value: Any, arrays: Sequence[Any], results: Sequence[Any]) -> bool:
        """Whether ``value`` shares its memory with no input, constant or other result."""
        if any(value is result for result in results):
            return False
        if number in self._new:
            return True
        plain = isinstance(value, np.ndarray) and value.base is None and value.flags.c_contiguous
        return plain and not any(value is array for array in arrays)


def _shapes_in(call: CallProgram, sizes: Mapping[str, int]) -> Shapes | None:
    """The shapes that the callee is called with; None if ``sizes`` do not determine all of them."""
    shapes: list[tuple[int, ...]] = []
    for spec in call.callee.inputs:
        dims = Spec(spec).type(dict(sizes)).shape
        known = tuple(dim for dim in dims or () if isinstance(dim, int))
        if dims is None or len(known) < len(dims):
            return None
        shapes.append(known)
    return tuple(shapes)


def _makes_maps(step: HostStep, specs: Sequence[Spec]) -> bool:
    """Whether a node makes maps from tensors only, so that its results share no memory with its inputs."""
    if not isinstance(step, CallHost) or step.bodies:
        return False
    reads = (specs[number].dtype for number in step.inputs if number is not None)
    return all(dtype.element is None for dtype in reads) and all(
        (element := specs[number].dtype.element) is not None and element.kind == "map"
        for number in step.outputs
    )


def _ends(program: HostProgram) -> list[list[int]]:
    """For each step, the values that no later step reads."""
    kept = {*program.results, *(value for _, value in program.updates)}
    last = {
        number: k
        for k, step in enumerate(program.steps)
        for number in (*step.inputs, *step.outputs)
        if number is not None and number not in kept
    }
    ends: list[list[int]] = [[] for _ in program.steps]
    for number, k in last.items():
        ends[k].append(number)
    return ends


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        maps = bool(value) and isinstance(value[0], dict)  # items of a sequence have one type
        return list(map(dict if maps else _copied, value))
    if isinstance(value, dict):
        return dict(value)
    return None if value is None else np.array(value, order="C")
