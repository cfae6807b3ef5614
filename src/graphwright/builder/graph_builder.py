"""Models that are built op by op in Python.

>>> b = gw.GraphBuilder()
>>> x = b.input("x", "f32", ("N", 64))
>>> b.output("y", b.softmax(b.matmul(x, weights), axis=-1))
>>> model = b.compile()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphwright.api import compile
from graphwright.builder.calls import check_operands, find_op, make_op, op_classes, signature, unknown_op
from graphwright.builder.errors import fault, located
from graphwright.builder.input_types import dtype_of_name, size_of
from graphwright.builder.loop_types import loop_region
from graphwright.builder.operands import Operand, dtype_choices, optional_value_of, value_of
from graphwright.builder.regions import Scope, new_scope, read_region, results_of, share_operands
from graphwright.config import Options
from graphwright.errors import ModelError
from graphwright.ir.constants.user_inputs import constant_for
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import ConstRef, DtypeError, Op
from graphwright.ir.types import BOOL, I64, DType, TensorType
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.core.reshape import Reshape
from graphwright.option_values import WHOLE_MODELS, known_device
from graphwright.runtime.model import Model

_OWN = ("input", "state", "update", "on", "constant", "if_", "loop", "output", "build", "compile")


class GraphBuilder:
    """Builds a model by hand: adds inputs, ops and outputs to a module; types are inferred and checked as ops
    are added.

    Each op is a method: ``b.conv(x, weights, strides=(2, 2))`` takes operands by position and attributes by
    keyword. Arrays become constants, numbers become constants of the other operands' dtype or of the dtype
    that the op needs, None omits an operand. ``dir(b)`` lists the ops, and ``help(b.conv)`` shows the
    signature of one. An op object works too: ``b(Conv(strides=(2, 2)), x, weights)``.

    Errors are a ModelError that names the op, its operands, and the line of the call.
    """

    def __init__(self) -> None:
        self.module = Module()
        self._scope = new_scope(self.module, self.module.add_graph(Graph("main")))
        self._outputs: dict[str, Value] = {}
        self._device = ""
        self._group = ""
        self._nexts: dict[Value, Value] = {}
        """The next value of each state."""
        self._starts: dict[Value, ConstRef] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        """Adds an input. Sizes are numbers, names (equal names are equal sizes), or expressions such as
        ``"2*N"``. ``dtype`` is a name such as ``f32``, or a NumPy type.
        """
        return self._add_input("input", name, dtype, shape)

    def state(self, name: str, dtype: str, shape: Sequence[int | str], start: Any = None) -> Value:
        """Adds a state: a value that the model keeps between runs, such as a key-value cache or optimizer
        moments. It is ``start`` (an array or a number; default zeros) before the first run, and what
        :meth:`update` sets after each run. Ops read it like an input. Its memory is updated in place if no op
        reads the old value later.

            >>> count = b.state("count", "f32", (1,))
            >>> b.update(count, b.add(count, x))
        """
        value = self._add_input("state", name, dtype, shape)
        if start is not None:
            self._starts[value] = self._start(name, start, value.type)
        self._nexts[value] = value
        return value

    def _start(self, name: str, given: Any, type: TensorType) -> ConstRef:
        with located(f"state {name!r}"):
            if not type.is_static:
                raise fault(
                    "state", f"it is {type}: a state with dynamic dimensions can only be set by model.reset"
                )
            try:
                return self.module.constants.add(np.array(constant_for(given, type)))
            except (TypeError, ValueError) as error:
                raise fault("state", f"invalid start value: {error}") from error

    def update(self, state: Value, value: Operand) -> None:
        """Sets the value of ``state`` after each run. Ops that read ``state`` in this run read
        the old value.
        """
        with located(f"update of {getattr(state, 'name', state)!r}"):
            if not isinstance(state, Value) or state not in self._nexts:
                raise fault(
                    "state", f"{state} is not a state of this builder", 'as in b.state("count", "f32", (1,))'
                )
            if self._nexts[state] is not state:
                raise fault("state", "it is already updated")
            next_value = value_of(value, self._scope, (state,))
            if next_value.graph is not self.module.main or next_value.type != state.type:
                raise fault("state", f"a state {state.type} cannot become {next_value.type}")
            self._nexts[state] = next_value

    def _add_input(self, kind: str, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        graph = self.module.main
        with located(f"{kind} {name!r}"):
            if not isinstance(name, str):
                raise fault("input-name", f"a name must be a str, not {type(name).__name__}")
            if not name or any(value.name == name for value in graph.inputs):
                raise fault("input-name", f"{name!r} is empty or already taken")
            if isinstance(shape, str) or not isinstance(shape, Sequence):
                raise fault("input-size", f"its shape is {shape!r}, not a tuple of sizes", 'as in ("N", 64)')
            dims = tuple(size_of(size, shape) for size in shape)
            return graph.add_input(TensorType(dtype_of_name(dtype), dims), name)

    @contextmanager
    def on(self, device: str) -> Iterator[None]:
        """Runs the ops that are added in the block on ``device``, which can be a plugin's. Other ops run on
        the device of the option ``device``; branches and bodies of loops run on the device of their node.

            >>> with b.on("cpu"):
            ...     y = b.relu(x)
        """
        with located():
            try:
                known_device(device)
            except ValueError as error:
                raise fault("device", f"device {device!r}: {error}") from error
            if device in WHOLE_MODELS:
                raise fault("device", f"device {device!r} can only run whole models: set the option device")
        around, self._device = self._device, device
        try:
            yield
        finally:
            self._device = around

    @contextmanager
    def fuse(self, group: str) -> Iterator[None]:
        """Computes the ops that are added in the block, and no others, in one kernel. Blocks with the same
        ``group`` share it. ``"never"`` keeps each op in a kernel of its own. Compilation raises ModelError if
        that is not possible.

            >>> with b.fuse("gate"):
            ...     y = b.mul(x, b.sigmoid(x))
        """
        with located():
            if not isinstance(group, str) or not group:
                raise fault("hint", f"group {group!r} is not a name: give a non-empty string, or 'never'")
        around, self._group = self._group, group
        try:
            yield
        finally:
            self._group = around

    def _hint(self, node: Node) -> None:
        """Gives ``node`` a source name of its own, which identifies its hint in all passes."""
        source, hints = node.name or node.op.name, self.module.hints
        source = f"{source}@{len(hints)}" if source in hints else source
        node.sources = (source, *node.sources)
        hints[source] = self._group

    def _add(self, op: Op, *operands: Value | None, name: str, regions: Sequence[Graph] = ()) -> Any:
        node = self._scope.builder.node(op, *operands, regions=regions, name=name)
        for value in node.outputs:
            value.device = self._device
        if self._group:
            self._hint(node)
        return node.outputs[0] if len(node.outputs) == 1 else node.outputs

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Adds a constant with a copy of ``array``."""
        return self._scope.builder.const(np.array(array))

    def __call__(self, op: Op, *operands: Operand, name: str = "") -> Any:
        """Adds ``op``. Returns its Value, or a tuple of Values if it has several outputs. Raises ModelError
        if types do not fit.
        """
        with located(name):
            if not isinstance(op, Op):
                given = op.__name__ if isinstance(op, type) else repr(op)
                raise fault("op", f"{given:.60} is not an op", "as in b(Softmax(axis=-1), x)")
            check_operands(op, operands)
            faults: list[ModelError] = []
            for dtypes in dtype_choices(operands):
                try:
                    return self._add_with(op, operands, dtypes, name)
                except ModelError as error:
                    faults.append(error)
            raise next((error for error in faults if not _is_dtype_error(error)), faults[0])

    def _add_with(
        self, op: Op, operands: Sequence[Operand], dtypes: Sequence[DType | None], name: str
    ) -> Any:
        """Adds ``op``, with numbers as constants of ``dtypes``."""
        values = [optional_value_of(o, self._scope, dtype) for o, dtype in zip(operands, dtypes, strict=True)]
        with located(name, f"in {op.name}({', '.join(map(_type_text, values))})"):
            return self._add(op, *values, name=name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The op with this method name, as a function of operands and attributes."""
        cls = None if name.startswith("_") else find_op(name)
        if cls is None:
            raise AttributeError(unknown_op(name, _OWN))

        def call(*operands: Operand, name: str = "", **attributes: Any) -> Any:
            with located(name):
                return self(make_op(cls, attributes), *operands, name=name)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = cls.__doc__
        call.__signature__ = signature(cls)  # type: ignore[attr-defined]  # what help() shows
        return call

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *op_classes()]

    def if_(
        self, condition: Value, then: Callable[[], Any], orelse: Callable[[], Any], *, name: str = ""
    ) -> Any:
        """The result of ``then()`` if ``condition``, one bool, is true, else that of ``orelse()``.

        Both functions add nodes and return a value, or a tuple of values, equal in number and dtypes. Only
        the nodes of one branch run. They can use outer values directly.

        >>> y = b.if_(b.greater(b.reduce_sum(x), 0.0), lambda: b.relu(x), lambda: b.neg(x))
        """
        with located(name):
            regions = [self._region(each, (), build) for each, build in (("then", then), ("orelse", orelse))]
            counts = [len(region.builder.graph.outputs) for region in regions]
            if counts[0] != counts[1]:
                raise fault("region", f"then returns {counts[0]} values, but orelse returns {counts[1]}")
            operands = share_operands(regions)
            selector = optional_value_of(condition, self._scope, None)
            graphs = [region.builder.graph for region in regions]
            return self._add(If(counts[0]), selector, *operands, regions=graphs, name=name)

    def loop(
        self,
        body: Callable[..., Any],
        *start: Operand,
        trips: Operand = None,
        condition: Callable[..., Any] | None = None,
        name: str = "",
    ) -> Any:
        """Repeats ``body`` for ``trips`` iterations, while ``condition`` holds, or until one of them ends it.

        ``body(step, *carried)`` adds the nodes of one iteration, with ``step`` counting from 0, and returns
        the loop-carried values for the next one, which are ``start`` at first. Further results are scan
        outputs: they are stacked along a new axis 0, one row per iteration. ``condition(*carried)`` returns
        one bool before each iteration. Returns the final carried values, then the scan outputs. Both
        functions may be called several times, until types are found that hold in every iteration.

        >>> total, partial = b.loop(lambda step, t: (b.add(t, x), t), zeros, trips=5)
        """
        with located(name):
            starts = [value_of(value, self._scope, start) for value in start]
            if trips is None and condition is None:
                raise fault("loop", "it has neither trips nor condition", "give one of them")
            known = trips if isinstance(trips, int) else None
            counted = [] if trips is None or known is not None else [self._scalar(trips, I64, "trips")]
            going = [] if condition is None else [self._condition_value(condition, starts)]
            region = self._body(body, condition, starts)
            scans = len(region.builder.graph.outputs) - len(going) - len(starts)
            op = Loop(len(starts), scans, bool(counted), bool(going), known)
            operands = [*counted, *going, *starts, *region.captured]
            return self._add(op, *operands, regions=[region.builder.graph], name=name)

    def output(self, name: str, value: Value) -> None:
        """Adds the output ``name``."""
        with located(f"output {name!r}"):
            if not isinstance(name, str) or not name or name in self._outputs:
                raise fault("output-name", f"{name!r} is empty, already taken or not text")
            if not isinstance(value, Value) or value.graph is not self.module.main:
                shown = f"{value}" if isinstance(value, Value) else f"{type(value).__name__}"
                hint = "add each value of a tuple by itself" if isinstance(value, tuple) else ""
                raise fault("output", f"{shown} is not a value of the main graph of this builder", hint)
            self._outputs[name] = value

    def build(self) -> Module:
        """The module. Later additions to the builder change it too."""
        if not self._outputs and not self._nexts:
            raise fault("outputs", "the graph has no outputs", "call output(name, value)")
        self.module.set_outputs(self._outputs, self._nexts, self._starts)
        return self.module

    def compile(self, options: Options | None = None, **arguments: Any) -> Model:
        """The compiled model. ``arguments`` are passed to :func:`graphwright.compile`."""
        return compile(self.build(), options=options, **arguments)

    def _region(self, what: str, types: Sequence[TensorType], build: Callable[..., Any]) -> Scope:
        """The region of the nodes that ``build`` adds for inputs of ``types``. Its outputs are the values
        that ``build`` returns.
        """
        if not callable(build):
            raise fault(
                "region", f"{what} is {type(build).__name__}, not a function", "as in lambda: b.relu(x)"
            )

        def trace(scope: Scope, inputs: Sequence[Value]) -> list[Value]:
            around, self._scope = self._scope, scope
            try:
                results = results_of(build(*inputs), what)
                return [value_of(result, self._scope, results) for result in results]
            finally:
                self._scope = around

        return read_region(self._scope, what, [("", type) for type in types], trace)

    def _body(
        self, body: Callable[..., Any], condition: Callable[..., Any] | None, starts: Sequence[Value]
    ) -> Scope:
        """The region of a loop, for types of loop-carried values that hold in every iteration."""

        def run(step: Value, *carried: Value) -> tuple[Any, ...]:
            results = results_of(body(step, *carried), "body")
            if len(results) < len(carried):
                raise fault(
                    "loop", f"body returns {len(results)} values for {len(carried)} loop-carried values"
                )
            following = [value_of(value, self._scope, carried) for value in results[: len(carried)]]
            going = [] if condition is None else [self._condition_value(condition, following)]
            return (*going, *following, *results[len(carried) :])

        first = int(condition is not None)
        return loop_region(
            self.module.symbols,
            [value.type for value in starts],
            lambda types: self._region("body", (ITERATION, *types), run),
            lambda region: region.builder.graph.outputs[first : first + len(starts)],
        )

    def _condition_value(self, condition: Callable[..., Any], carried: Sequence[Value]) -> Value:
        if not callable(condition):
            raise fault(
                "loop", f"condition is {type(condition).__name__}, not a function of the loop-carried values"
            )
        (result, *more) = results_of(condition(*carried), "condition")
        if more:
            raise fault("loop", f"condition returns {1 + len(more)} values", "return one bool")
        return self._scalar(result, BOOL, "condition")

    def _scalar(self, operand: Operand, dtype: DType, what: str) -> Value:
        """``operand``, which must be one element of ``dtype``, as a scalar."""
        value = value_of(operand, self._scope)
        if value.type.dtype != dtype or value.type.shape is None or set(value.type.shape) - {1}:
            raise fault("loop", f"{what} is {value.type}, not a single {dtype}")
        scalar: Value = self._scope.builder(Reshape(()), value) if value.type.shape else value
        return scalar


def _is_dtype_error(error: ModelError) -> bool:
    return all(diagnostic.code == DtypeError.code for diagnostic in error.diagnostics)


def _type_text(value: Value | None) -> str:
    return "none" if value is None else f"{value.name}: {value.type}" if value.name else str(value.type)
