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
        samples = (Sample(Relu(), (arg(F32, 2, 3),)),)
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, cast, dataclass_transform

import numpy as np

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.plugin_ops import defined_at, is_plugin_op, plugin_of
from graphwright.ir.symbols import Dim, Expr, SymbolTable
from graphwright.ir.types import DType, TensorType, dtype_named
from graphwright.records import MISSING, dataclass, fields, replace

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.graph import Graph, Value
    from graphwright.ir.loops.nodes import Scalar

Array = np.ndarray[Any, Any]


class Trait(enum.Flag):
    """What passes may ask of an op instead of its name."""

    NONE = 0
    ELEMENTWISE = enum.auto()
    """Each output element depends on the elements at its own (broadcast) place alone; has ``expression``."""
    VIEW = enum.auto()
    """Same bytes in the same row-major order under another shape."""
    COPY = enum.auto()
    """Each output element is one of input 0; other inputs say which."""
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


@dataclass(frozen=True)
class Fact:
    """What inference knows of a value: its type and, for small tensors of integers, its elements (ints or
    symbolic sizes).

    A float tensor has elements only where all of them are integers >= 0: sizes on their way to be scaled.

    ``elements`` is row-major and complete; ``data`` is the array where the value is a constant of any dtype
    and size. ``held`` are the types of the tensors in a sequence, in their order. ``partly`` are the elements
    where some of them, but not all, are known: None stands for the others.
    """

    type: TensorType
    elements: tuple[Dim, ...] | None = None
    data: Array | None = None
    held: tuple[TensorType, ...] | None = None
    partly: tuple[Dim | None, ...] | None = None

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape; raises :class:`UnknownRank` where it is not known, which makes the op's outputs unknown
        as well.
        """
        if self.type.shape is None:
            raise UnknownRank
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.shape)


class UnknownRank(Exception):
    """Raised inside ``infer`` when a rank that it needs is not known; the caller gives every output an
    unknown rank.
    """


class InferError(Exception):
    """Raised inside ``infer`` or ``verify``: types that cannot be right. The caller adds node and source."""


class Inference:
    """What ``infer`` may ask and assume about sizes; one per node.

    For ops with regions also what is known of the node's own inputs, and of each region's inputs inside it.
    """

    def __init__(
        self,
        symbols: SymbolTable,
        node: str,
        inputs: Sequence[Fact | None] = (),
        received: Sequence[Sequence[Fact]] = (),
    ) -> None:
        self.symbols = symbols
        self.node = node
        self.inputs = inputs
        self.received = received

    def fail(self, message: str) -> InferError:
        """``raise at.fail("...")``: the message says what is wrong, with sizes; the place is added."""
        return InferError(message)

    def equal(self, a: Dim, b: Dim, what: str) -> Dim:
        """Demand ``a == b``: proved, or a constraint, or refused. Returns the better known of the two."""
        if self.symbols.proves_equal(a, b):
            return a
        if self.symbols.refutes_equal(a, b):
            raise InferError(f"{what}: {a} and {b} differ")
        self.symbols.demand("==", a, b, self.node)
        return b if isinstance(b, int) else a

    def at_least(self, dim: Dim, bound: int, what: str) -> None:
        """Demand ``dim >= bound``: proved, or a constraint, or refused."""
        if isinstance(dim, int) and dim >= bound:
            return
        high = self.symbols.range_of(dim).high
        if high is not None and high < bound:
            raise InferError(f"{what}: {dim} is less than {bound}")
        if not self.symbols.proves_at_least(dim, bound):
            self.symbols.demand("<=", bound, dim, self.node)

    def assumes(self, relation: str, left: Dim, right: Dim) -> bool:
        """Whether this form of the module may rest on ``left relation right``, which then guards it.

        Shapes that break a guard get a form of their own, in which the other case is known; so an op assumes
        what is likely, and leaves open what it may not assume.
        """
        return self.symbols.assume(relation, left, right, self.node)

    def spread(self, have: Dim, want: Dim, what: str) -> None:
        """Demand that an axis of ``have`` elements broadcasts to ``want``: it has as many, or 1."""
        if have == 1 or self.symbols.proves_equal(have, want):
            return
        if isinstance(have, int) or self.symbols.refutes_equal(have, want):
            self.equal(have, want if isinstance(have, int) else 1, what)
        else:
            self.likely_equal(have, want, what)

    def likely_equal(self, a: Dim, b: Dim, what: str) -> None:
        """Assume ``a == b`` where the type does not show it: demanded where it may not be assumed, as no host
        node can decide it.
        """
        if not self.symbols.proves_equal(a, b) and not self.assumes("==", a, b) and self.symbols.assumable:
            self.equal(a, b, what)

    def differs(self, dim: Dim, number: int) -> bool:
        """Whether ``dim`` is not ``number``: proved, or assumed."""
        symbols = self.symbols
        if isinstance(dim, int) or symbols.refutes_equal(dim, number):
            return dim != number
        return not symbols.proves_equal(dim, number) and self.assumes("!=", dim, number)

    def not_less(self, dim: Dim, bound: int) -> bool:
        """Whether ``dim >= bound``: proved, or assumed."""
        return self.symbols.proves_at_least(dim, bound) or self.assumes("<=", bound, dim)

    def broadcast(self, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The NumPy broadcast of ``shapes``."""
        rank = max(map(len, shapes))
        result: list[Dim] = []
        for axis in range(-rank, 0):
            dim: Dim = 1
            for shape in shapes:
                if -axis <= len(shape):
                    dim = self.meet(dim, shape[axis], f"axis {axis} of a broadcast")
            result.append(dim)
        return tuple(result)

    def meet(self, a: Dim, b: Dim, what: str) -> Dim:
        """The size of an axis along which ``a`` and ``b`` elements broadcast: equal sizes, or one of them 1.

        Which of it is the case is assumed where it is not known: that the sizes are equal.
        """
        if a == 1 or b == 1:
            return b if a == 1 else a
        if self.symbols.proves_equal(a, b):
            return b if isinstance(b, int) else a
        if isinstance(a, int) and isinstance(b, int):
            raise InferError(f"{what}: {a} and {b} differ")
        if isinstance(a, int) or isinstance(b, int):
            known, open_ = (a, b) if isinstance(a, int) else (b, a)
            if not self.symbols.refutes_equal(known, open_):
                decided = self.assumes("==", open_, known) or not self.symbols.assumable
                return known if decided else self.symbols.fresh("broadcast")  # for the host to decide
            self.equal(open_, 1, what)
            return known
        return a if self.assumes("==", a, b) else self.symbols.fresh("broadcast")

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; refuses one outside ``[-rank, rank)``."""
        if not -rank <= axis < max(rank, 1):
            raise InferError(f"axis {axis} is outside a rank of {rank}")
        return axis % max(rank, 1)


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


class Importer(Protocol):
    """What an op's frontend mapping sees of one source node; the same for every frontend."""

    version: int
    """The opset version that the model declares for the node's domain."""
    domain: str
    op_type: str

    def input(self, index: int) -> Value:
        """Input ``index``; a diagnostic if it is absent."""

    def optional(self, index: int) -> Value | None:
        """Input ``index``, or None if it is absent or empty."""

    def inputs(self) -> list[Value | None]:
        """All inputs."""

    @property
    def output_count(self) -> int:
        """Number of outputs that the node declares, trailing unused ones included."""

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, tuple, array (tensors) or Graph; ``default`` if absent."""

    def required_attr(self, name: str) -> Any:
        """An attribute; a diagnostic if it is absent."""

    def constant(self, index: int) -> Array | None:
        """Input ``index`` as an array if it is a constant of the source; None if absent or computed."""

    def const(self, array: Array) -> Value:
        """A constant."""

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        """Append a node; returns its Value, or a tuple of Values when the op has several outputs."""

    @property
    def builder(self) -> Builder:
        """At the end of the graph that is being read: for what :meth:`emit` does not do."""

    def declared_ranks(self, name: str) -> list[int | None]:
        """Ranks that a graph attribute declares for its inputs, None where it does not."""

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        """A graph attribute as a closed region, and the outer values that became its last inputs.

        ``receives``: the types of its own inputs, instead of what the graph declares.
        """

    def inline(self, name: str) -> list[Value]:
        """A graph attribute without inputs added in place: its outputs. For a branch that is known to be
        taken.
        """

    def fail(self, message: str, hint: str = "") -> Exception:
        """``raise i.fail("...")``: a diagnostic for this source node; import goes on with the next one."""


Import = Callable[[Importer], Any]


@dataclass(frozen=True)
class Arg:
    """One input of a sample: its type and how to fill it (see :func:`arg`)."""

    type: TensorType
    fill: str = "normal"
    values: tuple[Any, ...] | None = None


def arg(dtype: DType, *shape: Dim, fill: str = "normal", values: Sequence[Any] | None = None) -> Arg:
    """A sample input: ``fill`` is ``normal``, ``positive``, ``unit`` (in (-1, 1)), ``index`` (small ints >=
    0) or ``mask``.
    """
    return Arg(TensorType(dtype, shape), fill, None if values is None else tuple(values))


@dataclass(frozen=True)
class Sample:
    """A node that must work on every device, or, with ``error``, must be refused with a message that holds
    that text.
    """

    op: Op
    inputs: tuple[Arg | None, ...]
    error: str = ""


def dtype_field(value: DType | str) -> DType:
    """An attribute that is a dtype, given as a DType or by name."""
    return value if isinstance(value, DType) else dtype_named(value)


@dataclass(frozen=True, init=False)
class Op:
    """Base of all ops. Subclass with :func:`op`; override what applies. Attributes are the fields."""

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
    aten: ClassVar[Mapping[str, Import]] = {}
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


def facts_elements(array: Array, limit: int = 256) -> tuple[Dim, ...] | None:
    """The elements of a small integer or bool array, for a :class:`Fact`."""
    if isinstance(array, list | dict) or array.dtype.kind not in "iub" or array.size > limit:
        return None
    return tuple(map(int, array.ravel().tolist()))


def is_known(elements: tuple[Dim, ...] | None) -> bool:
    """Whether all elements are numbers."""
    return elements is not None and not any(isinstance(e, Expr) for e in elements)
