"""Prints modules. :mod:`graphwright.ir.text` shows the format."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Module, Node, Signature, Value
from graphwright.ir.op import ConstRef, Op
from graphwright.ir.symbols import Expr, Range
from graphwright.ir.text.array_text import ConstantStyle, array_text
from graphwright.ir.text.quoting import quote
from graphwright.ir.types import DTYPES, DType, TensorType, type_of
from graphwright.records import dataclass, field

WIDTH = 110
_BARE_LABEL = re.compile(r"(?!\d+$)[A-Za-z0-9_/.\-]+")
_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEYLITERALS = frozenset(
    {"return", "from", "name", "on", "layout", "as", "graph", "constant", "symbol", "signature"}
)
LITERALS: dict[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "nan": float("nan"),
}
RESERVED = frozenset({*LITERALS, *DTYPES, "dim"})

_NO_LABELS: Mapping[str, str] = {}


def print_module(module: Module, *, constants: ConstantStyle = "full") -> str:
    """The text of ``module``. With ``constants="short"``, large constants are elided as ``...``."""
    labels = _constant_labels(module.constants)
    lines = [f"  metadata {quote(key)} = {quote(text)}" for key, text in module.metadata.items()]
    lines += [f"  hint {quote(source)} = {quote(hint)}" for source, hint in module.hints.items()]
    lines += [f"  {line}" for line in _symbol_lines(module)]
    for ref in module.constants:
        array = module.constants[ref]
        lines.append(f"  constant {labels[ref.digest]}: {type_of(array)} = {array_text(array, constants)}")
    for name, signature in module.signatures.items():
        lines.append(f"  signature {_name(name)}{_signature_text(signature, labels)}")
    for graph in module.graphs.values():
        lines += Listing(graph, labels, indent=1, keyword="graph ").lines
    return "\n".join(["module {", *lines, "}"]) + "\n"


def print_graph(graph: Graph) -> str:
    """The text of one graph; constants have no labels."""
    return "\n".join(Listing(graph, {}, keyword="graph ").lines) + "\n"


def print_op(op: Op) -> str:
    """The text of an op, such as ``Softmax[axis=1]``."""
    return f"{op.name}{attributes_text(op)}"


def print_node(node: Node) -> str:
    """The line of ``node`` in the text of its graph, without its regions."""
    if node.graph is None:
        return f"{node!r} (in no graph)"
    listing = Listing(node.graph, {})
    return listing.lines[listing.positions[node].line].strip()


@dataclass(frozen=True)
class NodePosition:
    """The position of a node in a listing: its line, and the columns of its parts (op, input, output,
    type).
    """

    line: int
    columns: dict[tuple[str, int], tuple[int, int]]


class Listing:
    """The lines of one graph with its regions, and the position of every node in them."""

    def __init__(
        self, graph: Graph, constants: Mapping[str, str], indent: int = 0, keyword: str = ""
    ) -> None:
        self.lines: list[str] = []
        self.positions: dict[Node, NodePosition] = {}
        self._constants = constants
        self._graph(graph, indent, keyword)

    def _graph(self, graph: Graph, indent: int, keyword: str) -> None:
        labels = _value_labels(graph)
        margin = "  " * indent
        inputs = [f"{labels[v]}: {_typed(v)}" for v in graph.inputs]
        header = f"{margin}{keyword}{_name(graph.name)}({', '.join(inputs)}) {{"
        if len(header) <= WIDTH:
            self.lines.append(header)
        else:
            self.lines.append(f"{margin}{keyword}{_name(graph.name)}(")
            self.lines += [f"{margin}    {text}," for text in inputs]
            self.lines.append(f"{margin}) {{")
        for node in graph:
            self._node(node, labels, indent + 1)
        returned = []
        for value, name in zip(graph.outputs, graph.output_names, strict=True):
            alias = f" as {quote(name)}" if name != value.name else ""
            returned.append(_label(labels, value) + alias)
        self.lines.append(f"{margin}  return {', '.join(returned)}".rstrip())
        self.lines.append(margin + "}")

    def _node(self, node: Node, labels: dict[Value, str], indent: int) -> None:
        line = _Line("  " * indent)
        for i, value in enumerate(node.outputs):
            line.part("output", i, _label(labels, value), separator=", ")
        line.text += " = " if node.outputs else ""
        line.part("op", 0, _name(node.op.name) + attributes_text(node.op, self._constants, node.outputs))
        line.text += "(" if node.inputs else ""
        for i, operand in enumerate(node.inputs):
            line.part("input", i, "_" if operand is None else _label(labels, operand), separator=", ")
        line.text += ")" if node.inputs else ""
        line.text += ": " if node.outputs else ""
        for i, value in enumerate(node.outputs):
            line.part("type", i, _typed(value), separator=", ")
        line.text += f" name {quote(node.name)}" if node.name else ""
        line.text += f" from {', '.join(map(quote, node.sources))}" if node.sources else ""
        self.positions[node] = NodePosition(len(self.lines), line.columns)
        if not node.regions:
            self.lines.append(line.text)
            return
        self.lines.append(line.text + " {")
        for region in node.regions:
            self._graph(region, indent + 1, "")
        self.lines.append("  " * indent + "}")


@dataclass
class _Line:
    text: str
    columns: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def part(self, kind: str, index: int, text: str, separator: str = "") -> None:
        self.text += separator if index else ""
        self.columns[kind, index] = (len(self.text), len(self.text) + len(text))
        self.text += text


def _name(text: str) -> str:
    return text if _BARE_NAME.fullmatch(text) and text not in KEYLITERALS else quote(text)


def _label(labels: dict[Value, str], value: Value) -> str:
    return labels.get(value) or f"%{quote('not in this graph: ' + value.name)}"


def _value_labels(graph: Graph) -> dict[Value, str]:
    labels: dict[Value, str] = {}
    repeats: dict[str, int] = {}
    unnamed = 0
    for value in _values(graph):
        if not value.name:
            labels[value] = f"%{unnamed}"
            unnamed += 1
            continue
        label = value.name if _BARE_LABEL.fullmatch(value.name) else quote(value.name)
        count = repeats.get(label, 0)
        repeats[label] = count + 1
        labels[value] = f"%{label}~{count}" if count else f"%{label}"
    return labels


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs


def _constant_labels(pool: ConstantPool) -> dict[str, str]:
    """The label of each digest: its shortest unique prefix, of at least six characters."""
    digests = sorted(ref.digest for ref in pool)
    labels = {}
    for i, digest in enumerate(digests):
        neighbors = digests[max(i - 1, 0) : i] + digests[i + 1 : i + 2]
        length = 6
        while any(other.startswith(digest[:length]) for other in neighbors):
            length += 1
        labels[digest] = f"#{digest[:length]}"
    return labels


def _typed(value: Value) -> str:
    layout = f" {value.layout}" if value.layout is not None else ""
    device = f" on {quote(value.device)}" if value.device else ""
    return f"{value.type}{layout}{device}"


def _symbol_lines(module: Module) -> Iterator[str]:
    table = module.symbols
    for name in dict.fromkeys((*table.ranges, *table.multiples)):
        bounds = table.ranges.get(name, Range())
        high = "inf" if bounds.high is None else bounds.high
        within = f" in [{bounds.low}, {high}]" if bounds != Range() else ""
        multiple = f" multiple of {table.multiples[name]}" if name in table.multiples else ""
        yield f"symbol {name}{within}{multiple}"
    for constraint in table.constraints:
        yield f"constraint {constraint} at {quote(constraint.node)}"
    for guard in table.guards:
        yield f"guard {guard} at {quote(guard.node)}"


def _signature_text(signature: Signature, labels: Mapping[str, str]) -> str:
    facts = [f"output {out} is input {source}" for out, source in signature.aliases]
    facts += [f"input {number} starts as {labels[ref.digest]}" for number, ref in signature.initial_values]
    return f"({', '.join(signature.roles)})" + (f" {', '.join(facts)}" if facts else "")


def attributes_text(op: Op, constants: Mapping[str, str] = _NO_LABELS, outputs: Sequence[Value] = ()) -> str:
    """The attributes that differ from their defaults, such as ``[strides=(2, 2)]``; empty if none does.

    The type of a Constant is left out if it is the type of the output.
    """
    if isinstance(op, Constant) and outputs:
        return _attributes_text(op, constants, outputs[0].type)
    text = op.attributes_text(_attributes_text)
    has_labels = constants and "#" in text  # "#" starts a label of a constant
    return _attributes_text(op, constants) if has_labels else text


def _attributes_text(
    op: Op, constants: Mapping[str, str] = _NO_LABELS, held: TensorType | None = None
) -> str:
    written = [
        f"{name}={_value_text(value, constants)}"
        for name, value in _plain_fields(op)
        if name != "type" or held is None or value != held
    ]
    return f"[{', '.join(written)}]" if written else ""


def _plain_fields(instance: Any) -> Iterator[tuple[str, Any]]:
    """The fields of an op or dataclass whose values differ from the defaults."""
    if isinstance(instance, Op):
        for name, value in vars(instance).items():
            if not _is_default(value, instance.attribute_defaults[name]):
                yield name, value
        return
    for f in dataclasses.fields(instance):
        value = getattr(instance, f.name)
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if not _is_default(value, default):
            yield f.name, value


def _is_default(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and same_value(value, default))


def same_value(a: Any, b: Any) -> bool:
    """Whether two attributes are identical: 1 differs from 1.0, 0.0 differs from -0.0, and NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(same_value(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return type(a) is type(b) and bool(a == b)


def _value_text(value: Any, constants: Mapping[str, str]) -> str:
    match value:
        case enum.Enum():
            return f"{type(value).__name__}.{value.name}"
        case bool() | None | DType() | TensorType():
            return str(value)
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return repr(float(value))
        case str():
            return quote(value)
        case Expr():
            return f"dim({value})" if str(value) in RESERVED else str(value)
        case ConstRef():
            return constants.get(value.digest, str(value))
        case tuple():
            parts = [_value_text(part, constants) for part in value]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f"{name}={_value_text(part, constants)}" for name, part in _plain_fields(value)]
        return f"{type(value).__name__}({', '.join(fields)})"
    raise TypeError(f"attributes of type {type(value).__name__} have no text")
