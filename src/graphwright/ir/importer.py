"""What the import functions of ops may ask of a source node, whichever format it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from graphwright.ir.inference import Array
from graphwright.ir.types import TensorType

if TYPE_CHECKING:
    from graphwright.ir.build import Builder
    from graphwright.ir.graph import Graph, Value
    from graphwright.ir.op import Op


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

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes but graphs by name, each as :meth:`attr` gives it."""

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
