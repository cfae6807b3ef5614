"""The interfaces through which import functions read a source node: common to all formats, and for each
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphwright.ir.op.inference import Array
from graphwright.ir.types import TensorType

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.graph import Graph, Value
    from graphwright.ir.op.contract import Op


class Importer(Protocol):
    """One node of a source model, in any format."""

    op_type: str

    def input(self, index: int) -> Value:
        """Input ``index``. Reports an error if it is absent."""

    def optional(self, index: int) -> Value | None:
        """Input ``index``, or None if it is absent or empty."""

    def inputs(self) -> list[Value | None]:
        """All inputs."""

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, tuple, array (tensors) or Graph; ``default`` if absent."""

    def required_attr(self, name: str) -> Any:
        """An attribute. Reports an error if it is absent."""

    def constant(self, index: int) -> Array | None:
        """Input ``index`` as an array if it is a constant of the source; None if absent or computed."""

    def const(self, array: Array) -> Value:
        """A constant."""

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        """Appends a node. Returns its Value, or a tuple of Values if the op has several outputs."""

    @property
    def builder(self) -> Builder:
        """A builder at the end of the graph that is being read."""

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        """A graph attribute as a closed region, and the outer values that are its last inputs (captures).

        ``receives``: types for the inputs of the graph that replace the declared ones.
        """

    def fail(self, message: str, hint: str = "") -> Exception:
        """The exception for ``raise i.fail("...")``: an error at this source node. Import continues after
        it.
        """


class OnnxImporter(Importer, Protocol):
    """A node of an ONNX model."""

    version: int
    """The opset version that the model declares for the node's domain."""
    domain: str

    @property
    def output_count(self) -> int:
        """Number of outputs that the node declares; empty ones at the end count only for an op with any
        number of outputs.
        """

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes except graphs, by name, as :meth:`attr` returns them."""

    def branches(self, *names: str) -> list[tuple[Graph, list[Value]]]:
        """Graph attributes of which one runs, as :meth:`region` gives them. One that cannot run with these
        sizes becomes a region that fails, unless none can run.
        """

    def declared_ranks(self, name: str) -> list[int | None]:
        """The ranks that a graph attribute declares for its inputs; None if it declares none."""

    def inline(self, name: str) -> list[Value]:
        """Inlines a graph attribute without inputs, for a branch that is known to run. Returns its
        outputs.
        """


class AtenImporter(Importer, Protocol):
    """A call of a PyTorch operator.

    Inputs are arguments by position in the schema of the operator. Attributes are arguments by name: numbers,
    dtypes, strings, tuples of these, and symbolic dims.
    """

    @property
    def results(self) -> Sequence[TensorType]:
        """The types of the results, as PyTorch infers them."""

    def is_used(self, index: int) -> bool:
        """Whether a node reads result ``index``. An import function can return None for other results."""

    def is_contiguous(self, index: int) -> bool:
        """Whether the tensor of argument ``index`` is contiguous in PyTorch."""

    def memory_order(self, index: int) -> tuple[int, ...] | None:
        """The axes of an argument of static shape, the outermost in memory first; None if it is not the only
        tensor in its storage, or not dense.
        """

    def promoted(self, *positions: int, floats: bool = False) -> tuple[Value, ...]:
        """Arguments, which are tensors or numbers, converted to their common dtype by PyTorch's type
        promotion.

        With ``floats``, integers are promoted to the default float dtype.
        """

    def ignore(self, *names: str) -> None:
        """Declares that these arguments do not change the results."""

    def listed(self, index: int) -> list[Value | None]:
        """The tensors of an argument that is a list of tensors."""

    def number(self, name: str) -> Any:
        """An argument that is a number. If it depends on sizes or elements, the result is a scalar tensor."""

    def operands(self, name: str) -> list[Any]:
        """An argument that is a list of tensors, numbers and dims, such as the arguments of a graph."""

    def inline(self, name: str, arguments: Sequence[Any], at: Builder | None = None) -> list[Any]:
        """Inlines an argument that is a graph, applied to ``arguments``, at the end of the graph or at
        ``at``. Returns its results, which are tensors or dims.
        """

    def result(self, value: Value) -> Value:
        """``value`` converted to the dtype of the first result."""


Import: TypeAlias = Callable[[OnnxImporter], Any]
AtenImport: TypeAlias = Callable[[AtenImporter], Any]
