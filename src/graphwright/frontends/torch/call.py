"""The view of a call of a PyTorch operator that import functions get."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import elementwise_dtypes

from graphwright.frontends.torch.higher_order import parameters_of
from graphwright.frontends.torch.numbers import scalar, size
from graphwright.frontends.torch.types import Unsupported, dtype_from, saturates, size_hint, type_from
from graphwright.ir.build import Builder
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.graph import Graph, Value
from graphwright.ir.op import Array, Op
from graphwright.ir.symbols import Expr
from graphwright.ir.types import I64, DType, TensorType
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.range import scalar_of

MEMORY_ARGUMENTS = frozenset({"layout", "device", "pin_memory", "memory_format", "non_blocking"})
"""Arguments about the memory of results. Import functions can ignore them, as the types of results are
checked.
"""

Inline = Callable[[fx.GraphModule, Sequence[Any], Builder], Sequence[Any]]
"""Inlines a graph, applied to the arguments, at the position of the builder. Returns its results."""


class Call:
    """An :class:`~graphwright.ir.op.importer.AtenImporter`.

    It records which arguments the import function reads. If an argument differs from its default and was not
    read, the import function does not support the call.
    """

    def __init__(
        self, node: fx.Node, resolve: Callable[[Any], Any], builder: Builder, inline: Inline
    ) -> None:
        """``resolve`` converts arguments of ``node`` to values, dims and dtypes."""
        self.op_type = str(node.target)
        self._node, self._builder, self._inline = node, builder, inline
        self._arguments = parameters_of(node.target)
        names = [argument.name for argument in self._arguments]
        self._nodes = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        self._given = {name: resolve(value) for name, value in self._nodes.items()}
        self._read: set[str] = set()

    @property
    def builder(self) -> Builder:
        """A builder at the end of the graph that is being read."""
        return self._builder

    @property
    def results(self) -> list[TensorType]:
        """The types of the results, as PyTorch infers them."""
        fake = self._node.meta["val"]
        every = fake if isinstance(fake, tuple | list) else (fake,)
        return [type_from(each) for each in every if isinstance(each, torch.Tensor)]

    def is_used(self, index: int) -> bool:
        """Whether a node reads result ``index``."""
        picks = [user for user in self._node.users if user.target is operator.getitem]
        return any(user.args[1] == index and user.users for user in picks)

    def is_contiguous(self, index: int) -> bool:
        """Whether an argument is a contiguous tensor."""
        given = self._nodes[self._arguments[index].name]
        return isinstance(given, fx.Node) and bool(given.meta["val"].is_contiguous())

    def memory_order(self, index: int) -> tuple[int, ...] | None:
        """The axes of an argument of static shape, the outermost in memory first; None if it is not the only
        tensor in its storage, or not dense.
        """
        given = self._nodes[self._arguments[index].name]
        fake = given.meta["val"] if isinstance(given, fx.Node) else torch.tensor(given)
        # not nbytes, which fails if only the offset is symbolic
        if size_hint(fake.untyped_storage().nbytes()) != size_hint(fake.numel()) * fake.itemsize:
            return None
        outermost = [(-fake.stride(axis), -fake.shape[axis], axis) for axis in range(fake.dim())]
        order = [axis for _, _, axis in sorted(outermost)]
        return tuple(order) if fake.permute(order).is_contiguous() else None

    def optional(self, index: int) -> Value | None:
        """Argument ``index`` as a tensor, or None."""
        given = self._argument(index)
        return None if given is None else self._value(given)

    def input(self, index: int) -> Value:
        """Argument ``index`` as a tensor."""
        value = self.optional(index)
        if value is None:
            raise self.fail(f"{self._arguments[index].name} is None")
        return value

    def inputs(self) -> list[Value | None]:
        """All arguments that are tensors."""
        names = [argument.name for argument in self._arguments]
        return [self.optional(k) for k, name in enumerate(names) if isinstance(self._given.get(name), Value)]

    def ignore(self, *names: str) -> None:
        """Declares that these arguments do not change the results."""
        self._read.update(names)

    def listed(self, index: int) -> list[Value | None]:
        """The tensors of an argument that is a list of tensors."""
        given = self._argument(index)
        return [None if each is None else self._value(each) for each in given or ()]

    def attr(self, name: str, default: Any = None) -> Any:
        """An argument as int, float, bool, str, dim, DType, or a tuple of these. If it is not given: its
        default in the schema, or ``default``.
        """
        self._read.add(name)
        given = self._given.get(name, self._default(name))
        return default if given is None else size(given)

    def number(self, name: str) -> Any:
        """An argument that is a number. If it depends on sizes or elements, the result is a scalar tensor."""
        self._read.add(name)
        given = scalar(self._given.get(name, self._default(name)))
        return scalar_of(self._builder, given) if isinstance(given, Expr) else given

    def operands(self, name: str) -> list[Any]:
        """An argument that is a list of tensors, numbers and dims. Data-dependent numbers are scalar
        tensors.
        """
        self._read.add(name)
        return list(map(scalar, self._given.get(name) or ()))

    def required_attr(self, name: str) -> Any:
        """An argument. Raises Unsupported if it is None."""
        given = self.attr(name)
        if given is None:
            raise self.fail(f"{name} is None")
        return given

    def promoted(self, *positions: int, floats: bool = False) -> tuple[Value, ...]:
        """Arguments converted to their common dtype by PyTorch's type promotion."""
        nodes = [self._nodes[self._arguments[k].name] for k in positions]
        fakes = [node.meta["val"] if isinstance(node, fx.Node) else node for node in nodes]
        kind = PROMOTION.INT_TO_FLOAT if floats else PROMOTION.DEFAULT
        _, dtype = elementwise_dtypes(*fakes, type_promotion_kind=kind)
        common = dtype_from(dtype)
        return tuple(self._converted(self._argument(k), common) for k in positions)

    def result(self, value: Value) -> Value:
        """``value`` converted to the dtype of the first result."""
        return self._cast(value, self.results[0].dtype)

    def constant(self, index: int) -> Array | None:
        """Argument ``index`` as an array if it is a constant of the source; None if absent or computed."""
        value = self.optional(index)
        known = None if value is None else constant_of(value)
        return None if known is None else self._builder.module.constants[known.value]

    def const(self, array: Array) -> Value:
        """A constant."""
        return self._builder.const(array)

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        """Appends a node. Returns its Value, or a tuple of Values if the op has several outputs."""
        return self._builder(op, *inputs, regions=regions)

    def inline(self, name: str, arguments: Sequence[Any], at: Builder | None = None) -> list[Any]:
        """Inlines an argument that is a graph, at the end of the graph or at ``at``. Returns its results."""
        return list(self._inline(self.required_attr(name), arguments, at or self._builder))

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        """An argument that is a graph, as a region. It captures no outer values."""
        graph = Graph(name)
        inputs = [graph.add_input(type, f"input_{k}") for k, type in enumerate(receives)]
        at = Builder(self._builder.module, graph, sources=self._builder.sources)
        graph.set_outputs(self.inline(name, inputs, at))
        return graph, []

    def fail(self, message: str, hint: str = "") -> Exception:
        """The exception for ``raise i.fail("...")``: the call is not supported, and the operator runs in
        PyTorch.
        """
        return Unsupported(message)

    def unread(self) -> Mapping[str, Any]:
        """The arguments that differ from their defaults and were not read."""
        return {
            name: given
            for name, given in self._given.items()
            if name not in self._read | MEMORY_ARGUMENTS and not _equal(given, self._default(name))
        }

    def _argument(self, index: int) -> Any:
        name = self._arguments[index].name
        self._read.add(name)
        return self._given.get(name, self._default(name))

    def _default(self, name: str) -> Any:
        known = next((each for each in self._arguments if each.name == name), None)
        if known is None:
            raise KeyError(f"{self.op_type} has no argument {name}")
        return tuple(known.default_value) if isinstance(known.default_value, list) else known.default_value

    def _value(self, given: Any) -> Value:
        """A tensor; a number becomes a scalar tensor of the dtype that PyTorch gives it."""
        given = scalar(given)
        if isinstance(given, Value):
            return given
        dtype = I64 if isinstance(given, Expr) else dtype_from(torch.tensor(given).dtype)
        return self._converted(given, dtype)

    def _converted(self, given: Any, dtype: DType) -> Value:
        given = scalar(given)
        if isinstance(given, Value):
            return self._cast(given, dtype)
        if isinstance(given, Expr):
            return self._cast(scalar_of(self._builder, given), dtype)
        return self.const(np.asarray(given).astype(dtype.numpy))

    def _cast(self, value: Value, dtype: DType) -> Value:
        if value.type.dtype == dtype:
            return value
        cast: Value = self.emit(Cast(dtype, saturates(dtype)), value)
        return cast


def _equal(a: Any, b: Any) -> bool:
    return type(a) in (type(b), bool, int, float) and bool(a == b)
