"""RankedImport: source nodes whose import depends on the ranks of operands that are not known yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from graphwright.errors import UnknownRankError
from graphwright.ir.build import Builder, new_main_graph
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.inference.infer import fact_of
from graphwright.ir.op import (
    Array,
    Fact,
    Import,
    Inference,
    InferError,
    OnnxImporter,
    Op,
    Sample,
    UnknownRank,
    arg,
    op,
    registered_ops,
)
from graphwright.ir.types import F32, TensorType

MAX_OPERANDS = 64
Attributes = tuple[tuple[str, Any], ...]


def ranked(convert: Import) -> Import:
    """Decorator of an import function that needs the ranks of all operands: defers the import if one is
    unknown.
    """

    @wraps(convert)
    def checked(i: OnnxImporter) -> Any:
        if all(value is None or value.type.shape is not None for value in i.inputs()):
            return convert(i)
        return defer(i)

    return checked


def defer(i: OnnxImporter) -> tuple[Value, ...]:
    """Imports the node as a :class:`RankedImport`. Raises a diagnostic if an attribute is a tensor
    or a graph.
    """
    given = tuple(sorted(i.attributes.items()))
    if not all(_is_plain(value) for _, value in given):
        raise i.fail(
            "the number of axes of an operand is not known",
            "give the sizes of the model's inputs with shapes=",
        )
    results = i.emit(RankedImport(i.op_type, i.version, i.domain, given, i.output_count), *i.inputs())
    return results if isinstance(results, tuple) else (results,)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str)


@op("RankedImport")
class RankedImport(Op):
    """A source node whose import needs the ranks of its operands. Once they are known, the imported ops
    replace it.

    ``op_type`` and ``domain`` name the op of the source model, and ``version`` is the opset of the domain
    that the model imports. ``given`` are the attributes, as pairs of name and value. ``results`` is the
    number of outputs.
    """

    op_type: str
    version: int
    domain: str = ""
    given: Attributes = ()
    results: int = 1
    optional_inputs = frozenset(range(MAX_OPERANDS))

    @property
    def source_name(self) -> str:
        return self.op_type

    def verify(self) -> None:
        if self._convert() is None:
            raise InferError(f"op {self.op_type} of domain {self.domain!r} is not supported")

    def output_count(self) -> int:
        return self.results

    def infer(self, at: Inference, *operands: Fact | None) -> tuple[Fact, ...]:
        module = Module()
        module.symbols = at.symbols
        builder, results = self._translated(module, operands, at.node)
        return tuple(builder.fact(value) or Fact(value.type) for value in results)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        module = Module()
        builder, results = self._translated(module, list(map(fact_of, operands)), self.op_type)
        builder.graph.set_outputs(results)
        return evaluate_module(module, [array for array in operands if array is not None])

    def _translated(
        self, module: Module, operands: Sequence[Fact | None], location: str
    ) -> tuple[Builder, tuple[Value, ...]]:
        """A graph in ``module`` with the import of the node: a builder at its end, and the outputs."""
        present = [fact for fact in operands if fact is not None]
        builder, values = new_main_graph(module, [(f"x{k}", f.type) for k, f in enumerate(present)])
        builder.sources = (location,)
        builder.facts.update(zip(values, present, strict=True))
        given = iter(values)
        return builder, self.decompose(builder, *(None if f is None else next(given) for f in operands))

    def decompose(self, b: Builder, *operands: Value | None) -> tuple[Value, ...]:
        if any(value is not None and value.type.shape is None for value in operands):
            raise UnknownRank
        convert = self._convert()
        assert convert is not None
        try:
            converted = convert(_Importer(self, b, operands))
        except UnknownRankError as error:
            raise UnknownRank from error
        except UnknownRank:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            ranks = ", ".join("none" if value is None else str(value.type) for value in operands)
            raise InferError(
                f"operands of {ranks} do not conform to the ONNX specification ({error})"
            ) from error
        results = tuple(converted) if isinstance(converted, list | tuple) else (converted,)
        if len(results) < self.results or None in results[: self.results]:
            raise InferError(f"not all of its {self.results} outputs are supported")
        return results[: self.results]

    def _convert(self) -> Import | None:
        """The import function of the newest opset that is at most ``version``."""
        found = {
            key[1]: convert
            for cls in registered_ops().values()
            for key, convert in cls.onnx.items()
            if (key[0], key[2] if len(key) > 2 else "") == (self.op_type, self.domain)
        }
        return found.get(max((since for since in found if since <= self.version), default=0))


class _Importer:
    """The :class:`~graphwright.ir.op.importer.Importer` of a node of the graph."""

    def __init__(self, node: RankedImport, b: Builder, operands: Sequence[Value | None]) -> None:
        self.op_type, self.version, self.domain = node.op_type, node.version, node.domain
        self.output_count = node.results
        self.attributes: Mapping[str, Any] = dict(node.given)
        self.builder = b
        self._operands = list(operands)

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self.fail(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self._operands[index] if index < len(self._operands) else None

    def inputs(self) -> list[Value | None]:
        return list(self._operands)

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def required_attr(self, name: str) -> Any:
        if name not in self.attributes:
            raise self.fail(f"attribute {name!r} is missing")
        return self.attributes[name]

    def constant(self, index: int) -> Array | None:
        fact = self.builder.fact(self.optional(index))
        return None if fact is None else fact.data

    def const(self, array: Array) -> Value:
        return self.builder.const(array)

    def emit(self, op: Op, *inputs: Value | None, regions: Sequence[Graph] = ()) -> Any:
        return self.builder(op, *inputs, regions=regions)

    def declared_ranks(self, name: str) -> list[int | None]:
        raise self._no_graph(name)

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        raise self._no_graph(name)

    def branches(self, *names: str) -> list[tuple[Graph, list[Value]]]:
        raise self._no_graph(names[0])

    def inline(self, name: str) -> list[Value]:
        raise self._no_graph(name)

    def _no_graph(self, name: str) -> Exception:
        return self.fail(f"the graph {name!r} is not available after import")

    def fail(self, message: str, hint: str = "") -> Exception:
        return InferError(f"{message}{hint and f' ({hint})'}")


RankedImport.samples = (
    Sample(RankedImport("Add", 6, "", (("axis", 1), ("broadcast", 1))), (arg(F32, 2, 3, 4), arg(F32, 3))),
    Sample(RankedImport("NoSuchOp", 6), (arg(F32, 2),), "op NoSuchOp of domain '' is not supported"),
    Sample(RankedImport("Add", 14), (arg(F32, 2),), "2 operands are needed, 1 are given"),
)
