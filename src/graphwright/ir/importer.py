"""What import functions may ask of a source node: what all formats have, and what one has alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphwright.ir.inference import Array
from graphwright.ir.types import TensorType

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.graph import Graph, Value
    from graphwright.ir.op import Op


class Importer(Protocol):
    """One source node, whichever format it comes from."""

    op_type: str

    def input(self, index: int) -> Value:
        """Input ``index``; a diagnostic if it is absent."""

    def optional(self, index: int) -> Value | None:
        """Input ``index``, or None if it is absent or empty."""

    def inputs(self) -> list[Value | None]:
        """All inputs."""

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

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        """A graph attribute as a closed region, and the outer values that became its last inputs.

        ``receives``: the types of its own inputs, instead of what the graph declares.
        """

    def fail(self, message: str, hint: str = "") -> Exception:
        """``raise i.fail("...")``: a diagnostic for this source node; import goes on with the next one."""


class OnnxImporter(Importer, Protocol):
    """A node of ONNX."""

    version: int
    """The opset version that the model declares for the node's domain."""
    domain: str

    @property
    def output_count(self) -> int:
        """Number of outputs that the node declares, trailing unused ones included."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes but graphs by name, each as :meth:`attr` gives it."""

    def declared_ranks(self, name: str) -> list[int | None]:
        """Ranks that a graph attribute declares for its inputs, None where it does not."""

    def inline(self, name: str) -> list[Value]:
        """A graph attribute without inputs added in place: its outputs. For a branch that is known to be
        taken.
        """


class AtenImporter(Importer, Protocol):
    """A call of an operator of PyTorch's. Inputs are arguments by their position in the operator's schema,
    attributes are arguments by name: numbers, dtypes, texts, tuples of these; open sizes are dims.
    """

    @property
    def results(self) -> Sequence[TensorType]:
        """The types of its results, as PyTorch infers them."""

    def is_used(self, index: int) -> bool:
        """Whether a node reads result ``index``; those that none reads may be None."""

    def owns_memory(self, index: int) -> bool:
        """Whether the elements of an argument are all of its memory, in the order of its axes."""

    def promoted(self, *positions: int, floats: bool = False) -> tuple[Value, ...]:
        """Arguments, tensors or numbers, in the one dtype that PyTorch computes them in; ``floats``: which is
        a float, of integers the default one.
        """

    def ignore(self, *names: str) -> None:
        """Note that these arguments, of those that there are, do not change the results."""

    def listed(self, index: int) -> list[Value | None]:
        """The tensors of an argument that is a list of them."""

    def number(self, name: str) -> Any:
        """An argument that is a number; where sizes or elements decide it, a scalar."""

    def operands(self, name: str) -> list[Any]:
        """An argument that is a list of tensors, numbers and dims, such as what a graph is called with."""

    def inline(self, name: str, arguments: Sequence[Any], at: Builder | None = None) -> list[Any]:
        """An argument that is a graph of ``arguments`` added in place, or where ``at`` stands: its results,
        which are tensors or dims.
        """

    def result(self, value: Value) -> Value:
        """``value`` in the dtype of the first result."""


Import: TypeAlias = Callable[[OnnxImporter], Any]
AtenImport: TypeAlias = Callable[[AtenImporter], Any]
