"""Parses modules: the inverse of :mod:`graphwright.ir.text.printer`. :mod:`graphwright.ir.text` shows the
format.
"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import accumulate
from math import prod
from typing import TypeVar

import numpy as np

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
from graphwright.ir.nesting import MAX_DEPTH, deep_calls
from graphwright.ir.op import Array, ConstRef, Op
from graphwright.ir.symbols import RELATIONS, Constraint, Range, parse_dim
from graphwright.ir.text.array_text import elements_array
from graphwright.ir.text.parse_attributes import AttributeParser
from graphwright.ir.text.quoting import unquote
from graphwright.ir.types import Layout, TensorType

MAX_SPLAT_BYTES = 2**31
"""The largest ``splat`` constant. The limit keeps a short text from allocating much memory."""
T = TypeVar("T")


def parse_module(text: str, *, constants: ConstantPool | None = None) -> Module:
    """Parses ``text``. The ops in it must be registered.

    ``constants``: a pool with the tensors that the text elides as ``...``; they are found by the prefix of
    their digest. Raises a ModelError that shows the line and column of the first error.
    """
    parser = _Parser(text, constants)
    try:
        with deep_calls(min(_depth(text), MAX_DEPTH)):
            return parser.module_text()
    except RecursionError:
        parser.fail("the text is nested too deeply")
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        parser.fail(str(error))


def _depth(text: str) -> int:
    """The nesting depth of braces in ``text``."""
    return max(accumulate(1 if mark == "{" else -1 for mark in re.findall("[{}]", text)), default=0)


def parse_op(text: str) -> Op:
    """Parses the result of ``print_op``."""
    parser = AttributeParser(text)
    try:
        return parser.make(*parser.op_head())
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        parser.fail(str(error))


class _Parser(AttributeParser):
    """A recursive descent parser with one method per construct of the grammar."""

    def __init__(self, text: str, constants: ConstantPool | None) -> None:
        super().__init__(text)
        self.elided = constants
        self.module = Module()

    # ---- module

    def module_text(self) -> Module:
        """``module { SECTION ... }``"""
        sections = {
            "metadata": self.metadata,
            "hint": self.hint,
            "symbol": self.symbol,
            "constraint": lambda: self.constraint(self.module.symbols.constraints),
            "guard": lambda: self.constraint(self.module.symbols.guards),
            "constant": self.constant,
            "signature": self.signature,
            "graph": self.entry,
        }
        self.expect("module", "{")
        while not self.accept("}"):
            section = sections.get(self.now.text)
            if section is None:
                self.fail(f"expected one of {', '.join(sections)} or '}}'")
            self.at += 1
            section()
        if self.now.kind != "end":
            self.fail("text after the module's end")
        return self.module

    def metadata(self) -> None:
        """``"KEY" = "TEXT"``"""
        key = self.string()
        self.expect("=")
        self.module.metadata[key] = self.string()

    def hint(self) -> None:
        """``"NODE" = "HINT"``"""
        source = self.string()
        self.expect("=")
        self.module.hints[source] = self.string()

    def symbol(self) -> None:
        """``NAME in [LOW, HIGH] multiple of NUMBER``"""
        name, bounds = self.token_of("name", "a symbol's name"), Range()
        if self.accept("in"):
            self.expect("[")
            low = self.integer()
            self.expect(",")
            bounds = Range(low, None if self.accept("inf") else self.integer())
            self.expect("]")
        self.module.symbols.ranges[name] = bounds
        if self.accept("multiple"):
            self.expect("of")
            self.module.symbols.multiples[name] = self.integer()

    def constraint(self, known: dict[Constraint, None]) -> None:
        """``DIM RELATION DIM at "NODE"``"""
        left = parse_dim(self.source_until(*RELATIONS))
        relation = self.take().text
        start = self.at
        while self.take().text != "at" or self.now.kind != "string":  # a symbol can be called "at" too
            pass
        right = parse_dim(self.text[self.tokens[start].start : self.tokens[self.at - 2].end])
        known.setdefault(Constraint(relation, left, right, self.string()))

    def signature(self) -> None:
        """``NAME(ROLE, ...) output NUMBER is input NUMBER, ... input NUMBER starts as #LABEL, ...``"""
        name = self.name()
        self.expect("(")
        roles = tuple(Role(role) for role in self.listed(lambda: self.token_of("name", "a role"), ")"))
        aliases: list[tuple[int, int]] = []
        while self.now.text == "output":
            self.expect("output")
            output = self.integer()
            self.expect("is", "input")
            aliases.append((output, self.integer()))
            self.accept(",")
        starts: list[tuple[int, ConstRef]] = []
        while self.accept("input"):
            number = self.integer()
            self.expect("starts", "as")
            starts.append((number, self.constant_ref()))
            self.accept(",")
        self.module.signatures[name] = Signature(roles, tuple(aliases), tuple(starts))

    def entry(self) -> None:
        self.module.add_graph(self.graph())

    # ---- constants

    def constant(self) -> None:
        """``#LABEL: TYPE = ARRAY``"""
        label = self.token_of("constant", "a constant's label such as #w")
        if label in self.labels:
            self.fail(f"{label} is declared twice")
        self.expect(":")
        type = self.tensor_type()
        self.expect("=")
        self.labels[label] = self.module.constants.add(self.array(label, type))

    def array(self, label: str, type: TensorType) -> Array:
        """``...`` if elided, ``splat ELEMENT``, ``base64 "TEXT"``, ``[ELEMENT, ...]``, or one element."""
        if not type.is_static:
            self.fail("a constant needs a shape of numbers")
        shape = type.sizes
        dtype, count = type.dtype.numpy, prod(shape)
        if self.now.text == "...":
            return self.elided_array(label, type)
        if self.accept("splat"):
            if count * type.dtype.bytes > MAX_SPLAT_BYTES:
                self.fail(f"{type} is too large for a splat")
            return np.broadcast_to(elements_array([self.element()], dtype)[0], shape)
        if self.accept("base64"):
            little = np.frombuffer(self.decoded(), dtype.newbyteorder("<"))
            return little.astype(dtype).reshape(shape)
        texts = self.listed(self.element, "]") if self.accept("[") else [self.element()]
        return elements_array(texts, dtype).reshape(shape)

    def decoded(self) -> bytes:
        try:
            return base64.b64decode(self.token_of("string", "base64 in double quotes")[1:-1], validate=True)
        except binascii.Error as error:
            self.fail(f"bad base64: {error}")

    def elided_array(self, label: str, type: TensorType) -> Array:
        """The array of the passed constants whose digest begins with ``label``."""
        if self.elided is None:
            self.fail(f"the tensor of {label} is left out: print with constants='full', or pass constants=")
        found = [ref for ref in self.elided if ref.digest.startswith(label[1:])]
        if len(found) != 1:
            self.fail(f"{len(found)} of the passed constants are called {label}")
        array = self.elided[found[0]]
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            self.fail(f"{label} is {array.dtype}{list(array.shape)} in the passed constants")
        self.at += 1
        return array

    def element(self) -> str:
        """The text of one element: a quoted string, a literal such as ``nan``, or a real or complex
        number.
        """
        if self.now.kind == "string":
            return self.take().text
        start = self.at
        if self.now.text in ("+", "-"):
            self.take()
        self.take()
        if self.now.text in ("+", "-"):
            self.take()
            self.take()
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    # ---- graphs

    def graph(self) -> Graph:
        """``NAME(INPUT, ...) { NODE ... return OPERAND as "NAME", ... }``"""
        graph = Graph(self.name())
        values: dict[str, Value] = {}
        self.expect("(")
        self.listed(lambda: self.graph_input(graph, values), ")")
        self.expect("{")
        while not self.accept("return"):
            self.node(graph, values)
        outputs, names = [], []
        while not self.accept("}"):
            value = self.operand(values)
            if value is None:
                self.fail("an output cannot be absent")
            outputs.append(value)
            names.append(self.string() if self.accept("as") else value.name)
            self.accept(",")
        graph.set_outputs(outputs, names)
        return graph

    def graph_input(self, graph: Graph, values: dict[str, Value]) -> None:
        """``%LABEL: TYPE``, with a layout and a device."""
        label = self.new_label(values)
        self.expect(":")
        type, layout, device = self.typed()
        value = graph.add_input(type, _value_name(label))
        value.layout, value.device = layout, device
        values[label] = value

    def new_label(self, values: dict[str, Value]) -> str:
        """``%LABEL`` of a value that is not defined yet."""
        if self.now.text in values:
            self.fail(
                f"{self.now.text} is defined twice; write a second value of that name as {self.now.text}~1"
            )
        return self.token_of("value", "a value such as %x")

    def node(self, graph: Graph, values: dict[str, Value]) -> None:
        """``%LABEL, ... = OP(OPERAND, ...): TYPE, ... name "NAME" from "SOURCE", ... { GRAPH ... }``"""
        labels: list[str] = []
        while self.now.kind == "value":
            labels.append(self.new_label(values))
            self.accept(",")
        if labels:
            self.expect("=")
        cls, attributes = self.op_head()
        inputs = self.listed(lambda: self.operand(values), ")") if self.accept("(") else []
        types = self.node_types(len(labels))
        if cls is Constant and "type" not in attributes and types:
            attributes["type"] = types[0][0]
        op = self.make(cls, attributes)
        name = self.string() if self.accept("name") else ""
        sources = self.strings() if self.accept("from") else []
        regions: list[Graph] = []
        if self.accept("{"):
            while not self.accept("}"):
                regions.append(self.graph())
        node = Node(op, inputs, [type for type, _, _ in types], regions, name, sources)
        for label, value, (_, layout, device) in zip(labels, node.outputs, types, strict=True):
            value.name, value.layout, value.device = _value_name(label), layout, device
            values[label] = value
        graph.append(node)

    def operand(self, values: dict[str, Value]) -> Value | None:
        """``%LABEL`` of a defined value, or ``_`` for an absent operand."""
        if self.accept("_"):
            return None
        value = values.get(self.now.text)
        if value is None:
            self.fail(
                f"{self.now.text} is used before it is defined"
                if self.now.kind == "value"
                else "expected a value"
            )
        self.at += 1
        return value

    def node_types(self, count: int) -> list[tuple[TensorType, Layout | None, str]]:
        """``: TYPE, ...`` for ``count`` results."""
        if not count:
            return []
        self.expect(":")
        types = [self.typed()]
        while len(types) < count:
            self.expect(",")
            types.append(self.typed())
        return types

    def strings(self) -> list[str]:
        """``"TEXT", ...``"""
        texts = [self.string()]
        while self.accept(","):
            texts.append(self.string())
        return texts


def _value_name(label: str) -> str:
    """The name of the value with this label: ``x`` for ``%x`` and ``%x~1``, and no name for ``%0``."""
    stem = re.sub(r"~\d+$", "", label[1:])
    if stem.startswith('"'):
        return unquote(stem)
    return "" if stem.isdigit() else stem
