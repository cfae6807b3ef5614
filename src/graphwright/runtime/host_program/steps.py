"""The steps of a host program: calls of native programs, and nodes that run on their references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from graphwright import _native
from graphwright.errors import Diagnostic, FeedError, GraphwrightError
from graphwright.executable.nodes import CallHost, CallProgram
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.ir.free_symbols import sizes_named
from graphwright.ir.inference.infer import fact_of
from graphwright.ir.op.region_op import LoopCarried, LoopOp, RegionOp, region_op
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Dim, parse_dim, substitute
from graphwright.ir.types import TensorType
from graphwright.records import dataclass, field
from graphwright.runtime.executor import (
    REFERENCE_FAULTS,
    Executor,
    FastPath,
    RunError,
    reference_fault,
)
from graphwright.runtime.host_program.host_call import op_of, reference_of, type_with_sizes, with_sizes
from graphwright.support.event_sink import now, record_node

Sizes = dict[str, int]


@dataclass
class Run:
    """The state of one run: the values of the current graph by number, the sizes known so far, and
    counters.
    """

    values: list[Any]
    sizes: Sizes
    threads: int
    targets: Sequence[Array | None] | None = None
    """The caller's arrays for outputs."""
    host_calls: int = 0


NativeStep = tuple[Callable[..., tuple[Array, ...] | None], Sequence[int], Sequence[int]]
"""A function, and the indices of the values that it reads and of those that it writes."""


@dataclass
class LoopValues:
    """The values of the body of a native loop: those of its host program, then those that pass sizes."""

    values: list[Any]
    axes: Mapping[str, tuple[int, int]]
    """The sizes that an iteration may change, each with the indices of a value and an axis that have it."""
    sizes: Sizes
    """The sizes that are known before the loop."""
    read: list[NativeStep] = field(default_factory=list)
    """The steps that read sizes from axes. They come first in each iteration."""
    passed: dict[str, int] = field(default_factory=dict)
    """The index of the value that passes each size."""

    def passing(self, name: str) -> int | None:
        """The index of the value that passes the size ``name``; None if nothing binds it."""
        if name in self.passed:
            return self.passed[name]
        if name in self.axes:
            value, axis = self.axes[name]
            index = self.bind(name)
            self.read.append((_native.AxisSize(axis), (value,), (index,)))
            return index
        return self.bind(name, _passed_size(self.sizes[name])) if name in self.sizes else None

    def bind(self, name: str, value: Any = None) -> int:
        """The index of a new value that passes the size ``name``."""
        self.passed[name] = len(self.values)
        self.values.append(value)
        return self.passed[name]


class StepRunner(Protocol):
    """Computes values from other values."""

    def run(self, run: Run) -> None:
        """Reads and writes ``run.values``. Raises FeedError and RunError."""

    def native(self, values: LoopValues, threads: int) -> NativeStep | None:
        """The step in a native loop; None if it has no native form."""


class CallProgramRunner(StepRunner):
    """A call of a program. ``indices`` are the positions of its outputs among those of the model, None for
    intermediate values.
    """

    def __init__(self, call: CallProgram, executor: Executor, indices: Sequence[int | None]) -> None:
        self._inputs, self._sizes, self._outputs = call.inputs, call.sizes, call.outputs
        self._executor, self._indices = executor, indices
        self._gives_outputs = any(index is not None for index in indices)
        self._fast_paths: dict[int, FastPath] = {}

    def run(self, run: Run) -> None:
        values = run.values
        arrays = [contiguous(values[number]) for number in self._inputs] + self._bound_sizes(run)
        for number, array in zip(self._outputs, self._results(arrays, run), strict=True):
            values[number] = array

    def _results(self, arrays: list[Array], run: Run) -> Sequence[Array]:
        targets = self._targets(run)
        served = self._fast_path(run.threads)(*arrays) if targets is None else None
        return self._executor.run(arrays, targets, run.threads) if served is None else served

    def _fast_path(self, threads: int) -> FastPath:
        path = self._fast_paths.get(threads)
        return path or self._fast_paths.setdefault(threads, self._executor.fast_path(threads))

    def native(self, values: LoopValues, threads: int) -> NativeStep | None:
        path = self._fast_path(threads)
        sizes = [index for name in self._sizes if (index := values.passing(name)) is not None]
        if not isinstance(path, _native.FastPath) or len(sizes) < len(self._sizes):
            return None
        return path, [*self._inputs, *sizes], self._outputs

    def _bound_sizes(self, run: Run) -> list[Array]:
        """The inputs that pass sizes to the program."""
        unknown = [name for name in self._sizes if name not in run.sizes]
        if unknown:
            raise RunError(Diagnostic("size", f"the size {', '.join(unknown)} of a subgraph was never bound"))
        return [_passed_size(run.sizes[name]) for name in self._sizes]

    def _targets(self, run: Run) -> list[Array | None] | None:
        targets = run.targets
        if not targets or not self._gives_outputs:
            return None
        return [None if index is None else targets[index] for index in self._indices]


def _passed_size(size: int) -> Array:
    """``size`` as programs receive it: an empty array whose first axis has that size."""
    return np.empty((size, 0), np.uint8)


def contiguous(array: Array) -> Array:
    """``array``, or a row-major copy of it."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


class Body(Protocol):
    """A region that can be run."""

    def run_body(self, arrays: Sequence[Any], outer: Run) -> tuple[Any, ...]:
        """The outputs for ``arrays``, with the sizes that ``outer`` has bound."""

    def native_loop(
        self, arrays: Sequence[Any], where: LoopCarried, limits: tuple[int, bool], outer: Run
    ) -> _native.NativeLoop | None:
        """A native loop over this body that starts from ``arrays``; None if the body has no native
        fast path.
        """


class CallHostRunner(StepRunner):
    """A node that runs on its reference. Regions of a node are run from here."""

    def __init__(self, host: CallHost, values: Sequence[Spec], bodies: Sequence[Body]) -> None:
        self._op, self._node = op_of(host.op), host.node
        self._inputs, self._repeats = host.inputs, host.repeats
        self._outputs = [(number, values[number]) for number in host.outputs]
        self._bodies = bodies
        self._has_sizes = bool(sizes_named(self._op))
        self._reference = None if bodies or self._has_sizes else reference_of(self._op, host.node)

    def run(self, run: Run) -> None:
        start = now()
        run.host_calls += 1
        values = run.values
        arrays = [None if number is None else values[number] for number in self._inputs]
        results = self._reference(arrays) if self._reference else self._compute(arrays, run)
        for (number, spec), result in zip(self._outputs, results, strict=True):
            values[number] = array = self._typed(result, spec)
            spec.learn(array, run.sizes, self._node)
        record_node(self._op.name, self._node, start)

    def native(self, values: LoopValues, threads: int) -> NativeStep | None:
        return None

    def _compute(self, arrays: Sequence[Any], run: Run) -> tuple[Any, ...]:
        op = self._op
        if self._has_sizes:
            op = with_sizes(op, run.sizes)
        if not self._bodies:
            return reference_of(op, self._node)(arrays)
        try:
            if isinstance(op, LoopOp):
                return self._run_loop(op, arrays, run)
            return self._run_selected(region_op(op), arrays, run)
        except REFERENCE_FAULTS as error:
            if isinstance(error, GraphwrightError):
                raise
            raise reference_fault(error, self._node) from error

    def _run_selected(self, op: RegionOp, arrays: Sequence[Any], run: Run) -> tuple[Any, ...]:
        """Runs the one region that the operands select."""
        first = len(arrays) - op.captured_operands(len(arrays))
        selected = op.selected_region(*map(fact_of, arrays[:first]))
        if selected is None:
            raise RunError(Diagnostic("reference", f"{op.name} runs none of its regions", self._node))
        captured = arrays[first:]
        return self._bodies[selected].run_body(captured, run)

    def _run_loop(self, op: LoopOp, arrays: Sequence[Any], run: Run) -> tuple[Any, ...]:
        """Runs a loop, natively if possible."""
        body, where, loop = self._bodies[0], op.loop_carried(), None
        if self._repeats:
            first = (np.zeros((), np.int64), *arrays[where.start :])
            loop = body.native_loop(first, where, op.limits(arrays), run)
        if loop is None:
            return op.repeat(lambda _, given: body.run_body(given, run), arrays, self._types(run))
        shared = arrays[where.start + where.count :]
        while not loop.run():  # this iteration runs in Python, which converts arrays and explains errors
            loop.take(body.run_body((*loop.received(), *shared), run))
        carried, rows = loop.results()
        return (*carried, *(op.no_rows(self._types(run)) if rows is None else rows))

    def _types(self, run: Run) -> list[TensorType]:
        """The types of the outputs, with numbers in place of known sizes."""
        return [spec.type(run.sizes) for _, spec in self._outputs]

    def _typed(self, result: Any, spec: Spec) -> Any:
        """``result`` as an array of the dtype in ``spec``; containers are returned unchanged."""
        if spec.dtype.element is not None:
            return result
        array = np.asarray(result)
        if array.dtype != spec.numpy:
            if spec.dtype.kind != "string" or array.dtype.kind not in "US":
                message = f"it returned {array.dtype} for {spec.name!r}, which has type {spec.dtype}"
                raise RunError(Diagnostic("reference", message, self._node))
            array = array.astype(object)
        return array


class Spec:
    """The declared type of a value, which checks its array and binds dynamic dimensions to the array's
    sizes.
    """

    def __init__(self, spec: TensorSpec) -> None:
        self.name, self.dtype = spec.name, spec.dtype
        self.numpy = spec.dtype.numpy if spec.dtype.element is None else None
        dims = None if spec.shape is None else tuple(map(_dim, spec.shape))
        self._type = TensorType(spec.dtype, dims)
        self._expected = [_axis(dim) for dim in dims or ()]

    def learn(self, array: Any, sizes: Sizes, node: str = "") -> None:
        """Adds the sizes that ``array`` binds to ``sizes``. Raises FeedError if its shape is not as
        declared; ``node`` computed it.
        """
        if self._type.shape is not None and self.numpy is not None:
            self.bind(array.shape, sizes, node)

    def bind(self, shape: Sequence[int], sizes: Sizes, node: str = "") -> None:
        """As :meth:`learn`, for the ``shape`` of an array."""
        if self._type.shape is None or self.numpy is None:
            return
        if len(shape) != len(self._expected):
            fault = f"{self.name!r} must have rank {len(self._expected)}, but has rank {len(shape)}"
            raise FeedError(Diagnostic("feed-shape", fault, node))
        for axis, expected in enumerate(self._expected):
            size = expected(shape[axis], sizes)
            if size is not None and size != shape[axis]:
                fault = f"axis {axis} of {self.name!r} must be {size}, but is {shape[axis]}"
                raise FeedError(Diagnostic("feed-shape", fault, node))

    def type(self, sizes: Sizes) -> TensorType:
        """The type, with numbers in place of known sizes."""
        return type_with_sizes(self._type, sizes)


def _dim(dim: int | str) -> Dim:
    return dim if isinstance(dim, int) else parse_dim(dim)


Expected = Callable[[int, Sizes], int | str | None]
"""A function of the actual size of an axis and of the known sizes. Returns the size that the axis must have,
or a text about the sizes that it may have; None if neither is known.
"""


def _axis(dim: Dim) -> Expected:
    if isinstance(dim, int):
        return lambda size, sizes: dim
    scaled = scaled_symbol(dim)
    if scaled is None:
        return lambda size, sizes: number_of(dim, sizes)
    name, scale = scaled

    def expected(size: int, sizes: Sizes) -> int | str:
        if name not in sizes:
            if size % scale:
                return f"a multiple of {scale}"
            sizes[name] = size // scale
        return sizes[name] * scale

    return expected


def number_of(dim: Dim, sizes: Sizes) -> int | None:
    """The value of ``dim``; None if a symbol in it is unknown."""
    size = substitute(dim, sizes)
    return size if isinstance(size, int) else None
