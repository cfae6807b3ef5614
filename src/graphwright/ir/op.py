"""The contract of an op: one frozen dataclass of attributes per op, one file per op, everything about it
inside.

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

What only some ops tell are interfaces, base classes beside :class:`Op`: ``PaddingRule`` (ir/padding),
``BlockedForm`` (ir/blocked_form), ``BoundedForm`` (ir/bounded_form), ``CopiesElements`` (ir/copied_elements),
``Arithmetic`` (ir/arithmetic).
Ops with regions are in ir/region_op, what ``infer`` asks in ir/inference, what an import asks in ir/importer.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, cast, dataclass_transform

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.exporter import Export
from graphwright.ir.importer import AtenImport, AtenImporter, Import, Importer, OnnxImporter
from graphwright.ir.inference import (
    Array,
    Fact,
    Inference,
    InferError,
    UnknownRank,
    facts_elements,
    is_known,
)
from graphwright.ir.plugin_ops import defined_at, is_plugin_op, plugin_of
from graphwright.ir.sample import Arg, Sample, arg
from graphwright.ir.symbols import Dim
from graphwright.ir.types import DType, TensorType, dtype_named
from graphwright.records import MISSING, dataclass, fields, replace

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.loops.nodes import Scalar

__all__ = [
    "Arg",
    "Array",
    "AtenImport",
    "AtenImporter",
    "ConstRef",
    "Fact",
    "Folding",
    "Import",
    "Importer",
    "InferError",
    "Inference",
    "OnnxImporter",
    "Op",
    "OpType",
    "Sample",
    "Trait",
    "UnknownRank",
    "arg",
    "dtype_field",
    "facts_elements",
    "family",
    "folding",
    "is_known",
    "op",
    "op_class",
    "registered_ops",
]


class Trait(enum.Flag):
    """What passes may ask of an op instead of its name."""

    NONE = 0
    ELEMENTWISE = enum.auto()
    """Each output element depends on the elements at its own (broadcast) place alone; has ``expression``."""
    VIEW = enum.auto()
    """Same bytes in the same row-major order under another shape."""
    COPY = enum.auto()
    """Each output element is one of input 0, by its position alone."""
    REDUCTION = enum.auto()
    """Folds axes of its first input with an associative, commutative combiner."""
    CONTRACTION = enum.auto()
    """A matrix product or convolution: takes an epilogue."""
    COMMUTATIVE = enum.auto()
    """Inputs 0 and 1 may be swapped."""
    EFFECT = enum.auto()
    """Does more than compute its outputs: order is kept, never merged or pruned."""
    SHAPE_ONLY = enum.auto()
    """Outputs depend on the shapes of the inputs, not on their elements."""

    def __contains__(self, other: Trait) -> bool:
        """Whether one of ``other`` is there: asked for each node, and several times as fast as enum's."""
        return bool(self._value_ & other._value_)


@dataclass(frozen=True)
class ConstRef:
    """A tensor in the module's constant pool, by content hash."""

    digest: str

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return f"#{self.digest}"


class Folding(Protocol):
    """What an op with :attr:`Trait.REDUCTION` offers: ``finish(combine(prepare(x), ...), count)``."""

    @property
    def combiner(self) -> str:
        """``add``, ``mul``, ``max`` or ``min``."""

    @property
    def keepdims(self) -> bool:
        """Whether folded axes stay, with size 1."""

    def resolved(self, rank: int) -> tuple[int, ...]:
        """The folded axes of an operand of ``rank``, counted from the front, in order."""

    def identity(self, dtype: DType) -> float | int | bool:
        """What the accumulator starts from."""

    def prepare(self, x: Scalar) -> Scalar:
        """What is combined, from one element."""

    def finish(self, acc: Scalar, count: Dim) -> Scalar:
        """The result, from the accumulator of ``count`` elements."""


def folding(op: Op) -> Folding:
    """``op``, which has the trait REDUCTION, as what the trait promises."""
    assert Trait.REDUCTION in op.traits
    return cast(Folding, op)


def dtype_field(value: DType | str) -> DType:
    """An attribute that is a dtype, given as a DType or by name."""
    return value if isinstance(value, DType) else dtype_named(value)


@dataclass(frozen=True, init=False)
class Op:
    """Base of all ops. Subclass with :func:`op`; override what applies. Attributes are the fields.

    Every op without regions has ``infer``. ``reference`` and ``expression`` raise NotImplementedError in ops
    that have none: passes and devices then take another way, or say so.
    """

    name: ClassVar[str]
    traits: ClassVar[Trait] = Trait.NONE
    outputs: ClassVar[int] = 1
    """Number of outputs; where it varies with attributes, override :meth:`output_count`."""
    optional_inputs: ClassVar[frozenset[int]] = frozenset()
    """Positions that may be None."""
    steered_from: ClassVar[int] = 1
    """The first operand that may give sizes, axes or bounds (:meth:`fold_operands`)."""
    onnx: ClassVar[Mapping[tuple[str, int] | tuple[str, int, str], Import]] = {}
    """``(op_type, since_version[, domain]) -> import function``; the newest version not above the model's
    serves.
    """
    aten: ClassVar[Mapping[str, AtenImport]] = {}
    """``operator, or operator.overload -> import function``, as in ``"relu"`` and ``"add.Tensor"``."""
    to_onnx: ClassVar[Export | None] = None
    """How it is written to a model of ONNX (:mod:`graphwright.ir.exporter`); None where that cannot be."""
    samples: ClassVar[tuple[Sample, ...]] = ()
    attribute_defaults: ClassVar[Mapping[str, Any]] = {}
    """By attribute, in order; MISSING where one must be given."""

    __slots__ = ("_text",)
    """How its attributes print, once they have: kept outside of the attributes, which are ``vars(op)``."""

    def __init__(self, *values: Any, **named: Any) -> None:
        """One for all ops: compiling it for each class, as records do, takes longer than its import."""
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
        """What ``write`` makes of the op, which is written once."""
        known: str | None = getattr(self, "_text", None)
        if known is None:
            known = write(self)
            object.__setattr__(self, "_text", known)
        return known

    @property
    def source_name(self) -> str:
        """What errors call the op: its name, or that of the model's op that it stands for."""
        return self.name

    def output_count(self) -> int:
        return self.outputs

    def verify(self) -> None:
        """Raise :class:`InferError` if the attributes alone are wrong."""

    def infer(self, at: Inference, *inputs: Any) -> TensorType | Fact | tuple[TensorType | Fact, ...]:
        """Types of the outputs (a Fact where elements are known as well), or InferError / UnknownRank."""
        raise NotImplementedError(self.name)

    def fold_operands(self, *facts: Any) -> tuple[Op, tuple[int, ...]] | None:
        """Ops with operands that steer shapes (Reshape's ``shape``) or attributes that need sizes
        (``auto_pad``).

        Returns the op with those moved into plain attributes (dims may be symbols), and the positions of the
        inputs that stay; None if there is nothing to move or the elements are not known. ``infer`` and
        ``reference`` see the folded form alone; where it cannot be had, ``infer`` raises
        :class:`UnknownRank`.
        """
        return None

    def forwarded_operand(self, gives: TensorType, *facts: Any) -> int | None:
        """The input that the only output, of type ``gives``, always equals; None if there is none."""
        return None

    def reference(self, *inputs: Any) -> Any:
        """The meaning in NumPy: arrays (or None) in, an array or a tuple of arrays out. Never writes its
        inputs.
        """
        raise NotImplementedError(self.name)

    def expression(self, *inputs: Any) -> Scalar:
        """Elementwise ops: the scalar expression of one output element."""
        raise NotImplementedError(self.name)

    def decompose(self, b: Builder, *inputs: Any) -> Any:
        """The same meaning in simpler ops (a Value or a tuple), or None where this op has its own kernels."""
        return None

    def has_expression(self) -> bool:
        return type(self).expression is not Op.expression

    def attributes(self) -> dict[str, Any]:
        """Field names and values in declaration order."""
        return dict(vars(self))

    def with_attributes(self, change: Callable[[Any], Any]) -> Self:
        """The op with every attribute put through ``change``; itself if that changes none."""
        made = {name: change(value) for name, value in self.attributes().items()}
        changed = {name: value for name, value in made.items() if value != getattr(self, name)}
        return replace(self, **changed) if changed else self


OpType = TypeVar("OpType", bound=type[Op])
_REGISTRY: dict[str, type[Op]] = {}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass_transform(frozen_default=True)
def op(name: str) -> Callable[[OpType], OpType]:
    """Make a class an op: a frozen dataclass, registered under ``name`` (one definition per name).

    A name is words of letters, digits and ``_``, with dots between them. Raises PluginError for others, for
    a user's class that is no :class:`Op`, and for one that has the name of another op.
    """

    def register(cls: OpType) -> OpType:
        if not (isinstance(cls, type) and issubclass(cls, Op)):
            message = f"op {name!r}: {getattr(cls, '__name__', cls)!r} is no subclass of Op"
            raise PluginError(Diagnostic("plugin-class", message, defined_at(cls)))
        if not _NAME.fullmatch(name):
            message = f"op {name!r}: a name is words of letters, digits and _, such as Snake or acme.Snake"
            raise PluginError(Diagnostic("plugin-class", message, defined_at(cls)))
        made = family(cls)
        made.name = name
        known = _REGISTRY.setdefault(name, made)
        if known is not made and known.__module__ != made.__module__:
            raise _clash(name, known, made)
        _REGISTRY[name] = made
        return made

    return register


def _clash(name: str, known: type[Op], made: type[Op]) -> Exception:
    """That two modules define one op: a plugin's fault, whichever was imported first."""
    later, earlier = (made, known) if is_plugin_op(made) else (known, made)
    if not is_plugin_op(later):
        return ValueError(f"op {name!r} is defined in {known.__module__} and again in {made.__module__}")
    owner = f"of the plugin {plugin_of(earlier)}" if is_plugin_op(earlier) else "that graphwright has"
    message = f"op {name!r} of {plugin_of(later)} has the name of an op {owner}"
    return PluginError(Diagnostic("plugin-clash", message, defined_at(later), "give it another name"))


@dataclass_transform(frozen_default=True)
def family(cls: OpType) -> OpType:
    """Make a class that several ops have as their base, and that is none itself: their attributes are its."""
    made: Any = dataclass(frozen=True, init=False)(cls)
    made.attribute_defaults = {field.name: field.default for field in fields(made)}
    return cast(OpType, made)


def op_class(name: str) -> type[Op]:
    """The op registered as ``name``; KeyError if there is none. Import ``graphwright.ops`` first for the
    built-in ones.
    """
    return _REGISTRY[name]


def registered_ops() -> dict[str, type[Op]]:
    """All registered ops by name."""
    return dict(sorted(_REGISTRY.items()))
