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
from graphwright.building.calls import check_operands, find_op, make_op, op_classes, signature, unknown_op
from graphwright.building.faults import fault, located
from graphwright.building.regions import Scope, new_scope, read_region, results_of, share_operands
from graphwright.config import WHOLE_MODELS, Options, known_device
from graphwright.ir.conversion import converted
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.loop_types import MAX_ROUNDS, DtypesDiffer, widened
from graphwright.ir.op import ConstRef, Op
from graphwright.ir.symbols import Dim, SymbolError, parse_dim
from graphwright.ir.types import BOOL, DTYPES, I64, DType, TensorType, dtype_of
from graphwright.ir.user_inputs import constant_for
from graphwright.ops.control.if_ import If
from graphwright.ops.control.loop import ITERATION, Loop
from graphwright.ops.core.reshape import Reshape
from graphwright.runtime.model import Model
from graphwright.support.spelling import did_you_mean

Operand = Value | np.ndarray[Any, Any] | float | bool | None
_OWN = ("input", "state", "update", "on", "constant", "if_", "loop", "output", "build", "compile")


class GraphBuilder:
    """Builds a model by hand: adds inputs, ops and outputs to a module; types are inferred and checked as ops
    are added.

    Each op is a method: ``b.conv(x, weights, strides=(2, 2))`` takes operands by position and attributes by
    keyword. Arrays become constants, numbers become constants of the first operand's dtype, None omits an
    operand. ``dir(b)`` lists the ops, and ``help(b.conv)`` shows the signature of one. An op object works
    too: ``b(Conv(strides=(2, 2)), x, weights)``.

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
        """Add an input. Sizes are numbers, names (equal names are equal sizes), or expressions such as
        ``"2*N"``. ``dtype`` is a name such as ``f32``, or a NumPy type.
        """
        return self._add_input("input", name, dtype, shape)

    def state(self, name: str, dtype: str, shape: Sequence[int | str], start: Any = None) -> Value:
        """Add a state: a value that the model keeps between runs, such as a key-value cache or optimizer
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
        """Set the value of ``state`` after each run. Ops that read ``state`` in this run read
        the old value.
        """
        with located(f"update of {getattr(state, 'name', state)!r}"):
            if state not in self._nexts:
                raise fault(
                    "state", f"{state} is not a state of this builder", 'as in b.state("count", "f32", (1,))'
                )
            if self._nexts[state] is not state:
                raise fault("state", "it is already updated")
            next_value = self._operand(value, (state,))
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
            dims = tuple(_size(size, shape) for size in shape)
            return graph.add_input(TensorType(_dtype(dtype), dims), name)

    @contextmanager
    def on(self, device: str) -> Iterator[None]:
        """Run the ops that are added in the block on ``device``, which can be a plugin's. Other ops run on
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
        """Compute the ops that are added in the block, and no others, in one kernel. Blocks with the same
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
        """Give ``node`` a source name of its own, which identifies its hint in all passes."""
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
        """Add a constant with a copy of ``array``."""
        return self._scope.builder.const(np.array(array))

    def __call__(self, op: Op, *operands: Operand, name: str = "") -> Any:
        """Add ``op``. Returns its Value, or a tuple of Values if it has several outputs. Raises ModelError if
        types do not fit.
        """
        with located(name):
            if not isinstance(op, Op):
                given = op.__name__ if isinstance(op, type) else repr(op)
                raise fault("op", f"{given:.60} is not an op", "as in b(Softmax(axis=-1), x)")
            check_operands(op, operands)
            values = [self._value(operand, operands) for operand in operands]
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
            selector = self._value(condition, ())
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
        """Repeat ``body`` for ``trips`` iterations, while ``condition`` holds, or until one of them ends it.

        ``body(step, *carried)`` adds the nodes of one iteration, with ``step`` counting from 0, and returns
        the loop-carried values for the next one, which are ``start`` at first. Further results are scan
        outputs: they are stacked along a new axis 0, one row per iteration. ``condition(*carried)`` returns
        one bool before each iteration. Returns the final carried values, then the scan outputs. Both
        functions may be called several times, until types are found that hold in every iteration.

        >>> total, partial = b.loop(lambda step, t: (b.add(t, x), t), zeros, trips=5)
        """
        with located(name):
            starts = [self._operand(value, start) for value in start]
            if trips is None and condition is None:
                raise fault("loop", "it has neither trips nor condition", "give one of them")
            known = trips if isinstance(trips, int) else None
            counted = [] if trips is None or known is not None else [self._scalar(trips, I64, "trips")]
            going = [] if condition is None else [self._going(condition, starts)]
            region = self._body(body, condition, starts)
            scans = len(region.builder.graph.outputs) - len(going) - len(starts)
            op = Loop(len(starts), scans, bool(counted), bool(going), known)
            operands = [*counted, *going, *starts, *region.captured]
            return self._add(op, *operands, regions=[region.builder.graph], name=name)

    def output(self, name: str, value: Value) -> None:
        """Add the output ``name``."""
        with located(f"output {name!r}"):
            if not name or name in self._outputs:
                raise fault("output-name", f"{name!r} is empty or already taken")
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
                return [self._operand(result, results) for result in results]
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
            following = [self._operand(value, carried) for value in results[: len(carried)]]
            going = [] if condition is None else [self._going(condition, following)]
            return (*going, *following, *results[len(carried) :])

        types = [value.type for value in starts]
        for _ in range(MAX_ROUNDS):
            region = self._region("body", (ITERATION, *types), run)
            first = condition is not None
            given = [value.type for value in region.builder.graph.outputs[first : first + len(types)]]
            wider = self._widened([value.type for value in starts], types, given)
            if wider == types:
                return region
            types = wider
        raise fault("loop", f"the shapes of loop-carried values still change after {MAX_ROUNDS} iterations")

    def _widened(
        self, starts: Sequence[TensorType], received: Sequence[TensorType], given: Sequence[TensorType]
    ) -> list[TensorType]:
        wider = []
        for number, types in enumerate(zip(starts, received, given, strict=True)):
            try:
                wider.append(widened(self.module.symbols, *types))
            except DtypesDiffer as error:
                raise fault("loop", f"loop-carried value {number} {error}") from None
        return wider

    def _going(self, condition: Callable[..., Any], carried: Sequence[Value]) -> Value:
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
        value = self._operand(operand, ())
        if value.type.dtype != dtype or value.type.shape is None or set(value.type.shape) - {1}:
            raise fault("loop", f"{what} is {value.type}, not a single {dtype}")
        scalar: Value = self._scope.builder(Reshape(()), value) if value.type.shape else value
        return scalar

    def _operand(self, operand: Operand, operands: Sequence[Operand]) -> Value:
        value = self._value(operand, operands)
        if value is None:
            raise fault("operand", "None is not allowed here")
        return value

    def _value(self, operand: Operand, operands: Sequence[Operand]) -> Value | None:
        if operand is None:
            return None
        if isinstance(operand, Value):
            return self._scope.local(operand)
        if isinstance(operand, np.ndarray | np.generic):
            return self.constant(np.asarray(operand))
        if not isinstance(operand, bool | int | float | complex | list):
            is_tuple = isinstance(operand, tuple)
            hint = "give one value of the tuple" if is_tuple else "give a value or an array"
            raise fault("operand", f"an operand is a {type(operand).__name__}", hint)
        typed = next((o for o in operands if isinstance(o, Value)), None)
        if typed is None:
            raise fault("operand", f"the dtype of {operand!r} is not known", "give an array")
        try:
            return self._scope.builder.const(converted(operand, typed.type.dtype))
        except ValueError as error:
            raise fault(
                "operand", f"{operand!r:.60} is not a constant of {typed.type.dtype}: {error}"
            ) from error


def _type_text(value: Value | None) -> str:
    return "none" if value is None else f"{value.name}: {value.type}" if value.name else str(value.type)


def _size(given: Any, shape: Sequence[Any]) -> Dim:
    """A size of ``shape``: a number that is at least 0, or the parsed expression of a text."""
    message = f"its shape is {tuple(shape)}: "
    hint = "a size is a number, a name or an expression, as in ('N', 64); compile takes ranges, as shapes"
    if isinstance(given, str):
        try:
            return parse_dim(given)
        except SymbolError as error:
            raise fault("input-size", message + str(error), hint) from error
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise fault("input-size", f"{message}{given!r} is not a size", hint)
    if given < 0:
        raise fault("input-size", f"{message}{given} is less than 0", hint)
    return int(given)


def _dtype(given: Any) -> Any:
    """The DType with the name ``given``, or for a NumPy type."""
    if isinstance(given, str) and given in DTYPES:
        return DTYPES[given]
    try:
        if not isinstance(given, str):
            return dtype_of(np.empty(0, given))
    except TypeError:
        pass
    shown = repr(given)
    hint = f"{did_you_mean([str(given)], DTYPES)}one of {', '.join(DTYPES)}"
    raise fault("dtype", f"there is no dtype {shown}", hint)
