"""Source nodes that can only be translated once the ranks of their operands are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from graphwright.errors import ModelError
from graphwright.ir.build import Builder, new_graph
from graphwright.ir.evaluate import evaluate_module
from graphwright.ir.graph import Graph, Module, Value
from graphwright.ir.infer import fact_of
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

MOST_OPERANDS = 64
Attributes = tuple[tuple[str, Any], ...]


def ranked(convert: Import) -> Import:
    """``convert``, whose translation depends on ranks: put off where one of the operands' is not known."""

    @wraps(convert)
    def checked(i: OnnxImporter) -> Any:
        if all(value is None or value.type.shape is not None for value in i.inputs()):
            return convert(i)
        return put_off(i)

    return checked


def put_off(i: OnnxImporter) -> tuple[Value, ...]:
    """The node as a :class:`RankedImport`: its outputs. A diagnostic where its attributes hold tensors."""
    given = tuple(sorted(i.attributes.items()))
    if not all(_is_plain(value) for _, value in given):
        raise i.fail(
            "the number of axes of an operand is not known",
            "give the sizes of the model's inputs with shapes=",
        )
    made = i.emit(RankedImport(i.op_type, i.version, i.domain, given, i.output_count), *i.inputs())
    return made if isinstance(made, tuple) else (made,)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str)


@op("RankedImport")
class RankedImport(Op):
    """A node of ``domain`` that is translated to ops as soon as the ranks of its operands are known.

    ``version`` is the opset that the model declares for the domain, ``attributes`` are pairs of names and
    values, ``results`` the number of outputs.
    """

    op_type: str
    version: int
    domain: str = ""
    given: Attributes = ()
    results: int = 1
    optional_inputs = frozenset(range(MOST_OPERANDS))

    @property
    def source_name(self) -> str:
        return self.op_type

    def verify(self) -> None:
        if self._convert() is None:
            raise InferError(f"this op of domain {self.domain!r} has no translation")

    def output_count(self) -> int:
        return self.results

    def infer(self, at: Inference, *operands: Fact | None) -> tuple[Fact, ...]:
        module = Module()
        module.symbols = at.symbols
        builder, made = self._translated(module, operands, at.node)
        return tuple(builder.fact(value) or Fact(value.type) for value in made)

    def reference(self, *operands: Array | None) -> tuple[Array, ...]:
        module = Module()
        builder, made = self._translated(module, list(map(fact_of, operands)), self.op_type)
        builder.graph.set_outputs(made)
        return evaluate_module(module, [array for array in operands if array is not None])

    def _translated(
        self, module: Module, operands: Sequence[Fact | None], place: str
    ) -> tuple[Builder, tuple[Value, ...]]:
        """The node alone in ``module``: a builder at its end, and its outputs."""
        present = [fact for fact in operands if fact is not None]
        builder, values = new_graph(module, "main", [(f"x{k}", f.type) for k, f in enumerate(present)])
        builder.sources = (place,)
        builder.facts.update(zip(values, present, strict=True))
        given = iter(values)
        return builder, self.decompose(builder, *(None if f is None else next(given) for f in operands))

    def decompose(self, b: Builder, *operands: Value | None) -> tuple[Value, ...]:
        if any(value is not None and value.type.shape is None for value in operands):
            raise UnknownRank
        convert = self._convert()
        assert convert is not None
        try:
            made = convert(_Importer(self, b, operands))
        except ModelError as error:
            if error.diagnostics[0].code == "unknown-rank":
                raise UnknownRank from error
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            ranks = ", ".join("none" if value is None else str(value.type) for value in operands)
            raise InferError(f"operands of {ranks} break ONNX's rules ({error})") from error
        results = tuple(made) if isinstance(made, list | tuple) else (made,)
        if len(results) < self.results or None in results[: self.results]:
            raise InferError(f"not all of its {self.results} outputs are computed")
        return results[: self.results]

    def _convert(self) -> Import | None:
        """The newest import function not above ``version``."""
        found = {
            key[1]: convert
            for cls in registered_ops().values()
            for key, convert in cls.onnx.items()
            if (key[0], key[2] if len(key) > 2 else "") == (self.op_type, self.domain)
        }
        return found.get(max((since for since in found if since <= self.version), default=0))


class _Importer:
    """An :class:`~graphwright.ir.importer.Importer` of a node that the graph holds."""

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
        raise self.fail(f"graph {name!r} is not kept")

    def region(self, name: str, receives: Sequence[TensorType] = ()) -> tuple[Graph, list[Value]]:
        raise self.fail(f"graph {name!r} is not kept")

    def inline(self, name: str) -> list[Value]:
        raise self.fail(f"graph {name!r} is not kept")

    def fail(self, message: str, hint: str = "") -> Exception:
        return InferError(f"{message}{hint and f' ({hint})'}")


RankedImport.samples = (
    Sample(RankedImport("Add", 6, "", (("axis", 1), ("broadcast", 1))), (arg(F32, 2, 3, 4), arg(F32, 3))),
    Sample(RankedImport("NoSuchOp", 6), (arg(F32, 2),), "has no translation"),
    Sample(RankedImport("Add", 14), (arg(F32, 2),), "2 operands are needed, 1 are given"),
)
