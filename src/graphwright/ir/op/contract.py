"""The interface of ops. An op is a frozen dataclass of attributes; one file has everything about one op.

A minimal op::

    @op("Relu")
    class Relu(Op):
        traits = Trait.ELEMENTWISE

        def infer(self, at, x):
            return x.type

        def reference(self, x):
            return np.maximum(x, 0)

        def expression(self, x):
            return maximum(x, 0.0)

        onnx = {("Relu", 1): from_onnx(lambda i: i.emit(Relu(), i.input(0)))}
        to_onnx = as_onnx("Relu")
        samples = (Sample(Relu(), (arg(F32, 2, 3),)),)

Optional interfaces are further base classes (:mod:`graphwright.ir.interfaces`). Ops with regions are in
``region_op.py``, the argument of ``infer`` is in ``inference.py``, and that of import functions in
``importer.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

from graphwright.ir.op.exporter import Export
from graphwright.ir.op.importer import AtenImport, Import
from graphwright.ir.op.inference import Fact, Inference
from graphwright.ir.op.sample import Sample
from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType, TensorType, dtype_named
from graphwright.records import MISSING, dataclass, replace

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.loops.nodes import Scalar


class Trait(enum.Flag):
    """Properties of an op that passes ask for instead of its name."""

    NONE = 0
    ELEMENTWISE = enum.auto()
    """Each output element depends only on the (broadcast) input elements at its own position; has
    ``expression``.
    """
    VIEW = enum.auto()
    """The same bytes in the same row-major order with another shape."""
    COPY = enum.auto()
    """Each output element is an element of input 0, selected by position alone."""
    REDUCTION = enum.auto()
    """Reduces axes of its first input with an associative, commutative combiner."""
    CONTRACTION = enum.auto()
    """A matrix product or convolution; can have an epilogue."""
    COMMUTATIVE = enum.auto()
    """Inputs 0 and 1 may be swapped."""
    EFFECT = enum.auto()
    """Has a side effect: its order is kept, and it is never merged or removed."""
    SHAPE_ONLY = enum.auto()
    """The outputs depend on the shapes of the inputs, not on their elements."""
    NONNEGATIVE = enum.auto()
    """No element of a float output is negative or -0.0; elements may be NaN."""
    KEEPS_NONNEGATIVE = enum.auto()
    """As NONNEGATIVE, if no element of the inputs is negative or -0.0."""
    CONSTANT = enum.auto()
    """The op Constant, whose output is a tensor of the constant pool."""

    def __contains__(self, other: Trait) -> bool:
        """Whether any trait of ``other`` is set. Called for each node, and several times as fast as the
        method of Flag.
        """
        return bool(self._value_ & other._value_)


@dataclass(frozen=True)
class ConstRef:
    """A reference to a tensor in the constant pool, by content hash."""

    digest: str

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return f"#{self.digest}"


class ReductionOp(Protocol):
    """The interface of ops with :attr:`Trait.REDUCTION`.

    A reduction applies ``prepare`` to each element, combines the results with ``combiner``, and applies
    ``finish`` to the accumulator.
    """

    @property
    def combiner(self) -> str:
        """``add``, ``mul``, ``max`` or ``min``."""

    @property
    def keepdims(self) -> bool:
        """Whether the result keeps reduced axes, with size 1."""

    def resolved(self, rank: int) -> tuple[int, ...]:
        """The reduced axes of an operand of rank ``rank``, non-negative and sorted."""

    def with_axes(self, axes: tuple[int, ...]) -> Op:
        """The same reduction over ``axes``."""

    def identity(self, dtype: DType) -> float | int | bool:
        """The initial value of the accumulator."""

    def prepare(self, x: Scalar) -> Scalar:
        """Computes the value to combine from one element."""

    def finish(self, acc: Scalar, count: Dim) -> Scalar:
        """Computes the result from the accumulator of ``count`` elements."""


def reduction_op(op: Op) -> ReductionOp:
    """``op`` typed as a :class:`ReductionOp`. It must have the trait REDUCTION."""
    assert Trait.REDUCTION in op.traits
    return cast(ReductionOp, op)


def dtype_field(value: DType | str) -> DType:
    """An attribute value that is a dtype, given as a DType or by name."""
    return value if isinstance(value, DType) else dtype_named(value)


@dataclass(frozen=True, init=False)
class Op:
    """Base class of all ops. Subclass with :func:`op` and override what applies. Attributes
    are the fields.

    Every op without regions has ``infer``. ``reference`` and ``expression`` raise NotImplementedError in ops
    that do not have them; passes and devices then use an alternative, or report it.
    """

    name: ClassVar[str]
    traits: ClassVar[Trait] = Trait.NONE
    outputs: ClassVar[int] = 1
    """Number of outputs; if it depends on attributes, override :meth:`output_count`."""
    optional_inputs: ClassVar[frozenset[int]] = frozenset()
    """Input positions that may be None."""
    first_shape_operand: ClassVar[int] = 1
    """The first operand from which shapes can be computed, such as sizes or axes (:meth:`fold_operands`)."""
    onnx: ClassVar[Mapping[tuple[str, int] | tuple[str, int, str], Import]] = {}
    """``(op_type, since_version[, domain]) -> import function``; the newest version up to the opset of the
    model is used.
    """
    aten: ClassVar[Mapping[str, AtenImport]] = {}
    """``operator or operator.overload -> import function``, as in ``"relu"`` and ``"add.Tensor"``."""
    to_onnx: ClassVar[Export | None] = None
    """Exports the op to ONNX (:mod:`graphwright.ir.op.exporter`); None if that is not possible."""
    samples: ClassVar[tuple[Sample, ...]] = ()
    attribute_defaults: ClassVar[Mapping[str, Any]] = {}
    """Default value of each attribute, in order; MISSING if it is required."""

    __slots__ = ("_text",)
    """The printed attributes, cached outside ``vars(op)``, which are the attributes."""

    def __init__(self, *values: Any, **named: Any) -> None:
        """All ops share this constructor, because generating one per class, as dataclasses do, takes longer
        than importing the class.
        """
        given = dict(zip(self.attribute_defaults, values, strict=False)) | named
        state = {**self.attribute_defaults, **given}
        if (
            len(given) != len(values) + len(named)
            or len(state) != len(self.attribute_defaults)
            or any(value is MISSING for value in state.values())
        ):
            known = ", ".join(self.attribute_defaults) or "none"
            raise TypeError(f"{type(self).__name__} takes the attributes {known}: not {values} and {named}")
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def attributes_text(self, write: Callable[[Op], str]) -> str:
        """The result of ``write(self)``, cached."""
        known: str | None = getattr(self, "_text", None)
        if known is None:
            known = write(self)
            object.__setattr__(self, "_text", known)
        return known

    @property
    def source_name(self) -> str:
        """The name of the op in errors; for a foreign op, its name in the source model."""
        return self.name

    @property
    def allows_bytes(self) -> bool:
        """Whether kernels may round a float operand to 8 bits, which the reference does not do."""
        return False

    def output_count(self) -> int:
        """Number of outputs."""
        return self.outputs

    def verify(self) -> None:
        """Raises :class:`InferError` if the attributes are invalid."""

    def infer(self, at: Inference, *inputs: Any) -> TensorType | Fact | tuple[TensorType | Fact, ...]:
        """The types of the outputs (a Fact if elements are known too). Raises InferError or UnknownRank."""
        raise NotImplementedError(self.name)

    def fold_operands(self, *facts: Any) -> tuple[Op, tuple[int, ...]] | None:
        """Moves operands that determine shapes (such as the ``shape`` of Reshape), or sizes that attributes
        need (``auto_pad``), into attributes.

        Returns the op with these attributes (dims may be symbolic) and the positions of the remaining inputs;
        None if there is nothing to move, or elements are unknown. ``infer`` and ``reference`` only see the
        folded form; without it, ``infer`` raises :class:`UnknownRank`.
        """
        return None

    def forwarded_operand(self, gives: TensorType, *facts: Any) -> int | None:
        """The input that the only output, of type ``gives``, always equals; None if there is none."""
        return None

    def reference(self, *inputs: Any) -> Any:
        """The definition in NumPy: takes arrays (or None), returns an array or a tuple of arrays. Never
        modifies its inputs.
        """
        raise NotImplementedError(self.name)

    def expression(self, *inputs: Any) -> Scalar:
        """For elementwise ops: the scalar expression of one output element."""
        raise NotImplementedError(self.name)

    def decompose(self, b: Builder, *inputs: Any) -> Any:
        """The same computation in simpler ops (a Value or a tuple); None if the op has its own kernels."""
        return None

    def has_expression(self) -> bool:
        """Whether the op defines ``expression``."""
        return type(self).expression is not Op.expression

    def attributes(self) -> dict[str, Any]:
        """Field names and values in declaration order."""
        return dict(vars(self))

    def with_attributes(self, change: Callable[[Any], Any]) -> Self:
        """The op with ``change`` applied to every attribute; itself if that changes none."""
        values = {name: change(value) for name, value in self.attributes().items()}
        changed = {name: value for name, value in values.items() if value != getattr(self, name)}
        return replace(self, **changed) if changed else self
