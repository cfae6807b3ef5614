"""Parses modules: the inverse of :mod:`graphwright.ir.printer`. :mod:`graphwright.ir.text` shows the
format.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import Any, TypeVar

import numpy as np

from graphwright.errors import ModelError, UnknownOpError
from graphwright.ir.constant import Constant
from graphwright.ir.constant_pool import ConstantPool
from graphwright.ir.dtypes import CONTAINERS
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
from graphwright.ir.nesting import MAX_DEPTH, deep_calls
from graphwright.ir.op import Array, ConstRef, Op, op_class
from graphwright.ir.printer import LITERALS, elements_array, unquote
from graphwright.ir.symbols import RELATIONS, Constraint, Range, parse_dim
from graphwright.ir.tokens import TokenStream
from graphwright.ir.types import DTYPES, DType, Layout, TensorType, dtype_named, parse_type

MAX_SPLAT_BYTES = 2**31
"""The largest ``splat`` constant. The limit keeps a short text from allocating much memory."""
_FUNCTIONS = frozenset({"floordiv", "mod", "min", "max", "dim"})
_typed = lru_cache(maxsize=4096)(parse_type)
T = TypeVar("T")


def parse_module(text: str, *, constants: ConstantPool | None = None) -> Module:
    """Parse ``text``. The ops in it must be registered.

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
    """Parse the result of ``print_op``."""
    parser = _Parser(text, None)
    try:
        return parser.make(*parser.op_head())
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        parser.fail(str(error))


class _Parser(TokenStream):
    """A recursive descent parser with one method per construct of the grammar."""

    def __init__(self, text: str, constants: ConstantPool | None) -> None:
        super().__init__(text)
        self.elided = constants
        self.module = Module()
        self.labels: dict[str, ConstRef] = {}

    # ---- module

    def module_text(self) -> Module:
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
        key = self.string()
        self.expect("=")
        self.module.metadata[key] = self.string()

    def hint(self) -> None:
        source = self.string()
        self.expect("=")
        self.module.hints[source] = self.string()

    def symbol(self) -> None:
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
        left = parse_dim(self.source_until(*RELATIONS))
        relation = self.take().text
        start = self.at
        while self.take().text != "at" or self.now.kind != "string":  # a symbol can be called "at" too
            pass
        right = parse_dim(self.text[self.tokens[start].start : self.tokens[self.at - 2].end])
        known.setdefault(Constraint(relation, left, right, self.string()))

    def signature(self) -> None:
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
        label = self.token_of("constant", "a constant's label such as #w")
        if label in self.labels:
            self.fail(f"{label} is declared twice")
        self.expect(":")
        type = self.tensor_type()
        self.expect("=")
        self.labels[label] = self.module.constants.add(self.array(label, type))

    def array(self, label: str, type: TensorType) -> Array:
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
        if self.elided is None:
            self.fail(f"the tensor of {label} is left out: print with constants='full', or pass constants=")
        found = [ref for ref in self.elided if ref.digest.startswith(label[1:])]
        if len(found) != 1:
            self.fail(f"{len(found)} of the constants given are called {label}")
        array = self.elided[found[0]]
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            self.fail(f"{label} is {array.dtype}{list(array.shape)} in the constants given")
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
        label = self.new_label(values)
        self.expect(":")
        type, layout, device = self.typed()
        value = graph.add_input(type, _value_name(label))
        value.layout, value.device = layout, device
        values[label] = value

    def new_label(self, values: dict[str, Value]) -> str:
        if self.now.text in values:
            self.fail(
                f"{self.now.text} is defined twice; write a second value of that name as {self.now.text}~1"
            )
        return self.token_of("value", "a value such as %x")

    def node(self, graph: Graph, values: dict[str, Value]) -> None:
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

    def op_head(self) -> tuple[type[Op], dict[str, Any]]:
        name = self.name()
        try:
            cls = op_class(name)
        except KeyError:
            self.at -= 1
            try:
                self.fail(f"no op is called {name}")
            except ModelError as error:
                raise UnknownOpError(name, *error.diagnostics) from None
        attributes: dict[str, Any] = {}
        if self.accept("["):
            attributes.update(self.listed(lambda: self.attribute(cls), "]"))
        return cls, attributes

    def attribute(self, scope: type[Any]) -> tuple[str, Any]:
        name = self.token_of("name", "an attribute's name")
        self.expect("=")
        return name, self.value(scope)

    def make(self, cls: Callable[..., T], attributes: dict[str, Any]) -> T:
        try:
            return cls(**attributes)
        except TypeError as error:
            self.fail(str(error))

    def operand(self, values: dict[str, Value]) -> Value | None:
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
        if not count:
            return []
        self.expect(":")
        types = [self.typed()]
        while len(types) < count:
            self.expect(",")
            types.append(self.typed())
        return types

    def strings(self) -> list[str]:
        texts = [self.string()]
        while self.accept(","):
            texts.append(self.string())
        return texts

    # ---- types and attribute values

    def typed(self) -> tuple[TensorType, Layout | None, str]:
        type = self.tensor_type()
        layout = self.layout() if self.accept("layout") else None
        return type, layout, self.string() if self.accept("on") else ""

    def tensor_type(self) -> TensorType:
        start = self.now.start
        while self.now.text != "]":
            self.take()
        self.at += 1
        return _typed(self.text[start : self.tokens[self.at - 1].end])

    def layout(self) -> Layout:
        order: list[int] = []
        blocks: list[tuple[int, int]] = []
        self.expect("(")
        while self.now.text.isdigit():
            order.append(self.integer())
        zero = False
        while self.accept(","):
            zero = self.accept("zero")
            if not zero:
                axis = self.integer()
                self.expect("/")
                blocks.append((axis, self.integer()))
        self.expect(")")
        return Layout(tuple(order), tuple(blocks), zero)

    def value(self, scope: type[Any]) -> Any:
        """The value of an attribute. Enums and dataclasses are looked up in the Python module of
        ``scope``.
        """
        token, following = self.now, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind == "string":
            return self.string()
        if token.kind == "constant":
            return self.constant_ref()
        if self.accept("("):
            return tuple(self.listed(lambda: self.value(scope), ")"))
        if token.text in DTYPES and following.text == "[":
            return self.tensor_type()
        if token.text in CONTAINERS and following.text == "(":
            return self.container()
        if token.kind == "name" and "." in token.text:
            return self.enum_member(scope)
        if token.kind == "name" and following.text == "(" and token.text not in _FUNCTIONS:
            return self.instance(scope)
        return self.scalar()

    def container(self) -> DType | TensorType:
        """A container dtype, ``seq(f32)``, or a type with it, ``seq(f32)[]``."""
        start = self.at
        name = self.take().text + self.take().text
        while name.count("(") > name.count(")"):
            name += self.take().text
        if self.now.text == "[":
            self.at = start
            return self.tensor_type()
        try:
            return dtype_named(name)
        except KeyError:
            self.fail(f"{name} is no dtype")

    def constant_ref(self) -> ConstRef:
        ref = self.labels.get(self.now.text)
        if ref is None:
            self.fail(f"no constant is called {self.now.text}")
        self.at += 1
        return ref

    def scalar(self) -> Any:
        """A number, a literal such as ``True``, a dtype, or a size."""
        text = self.source_until(",", ")", "]")
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if text in LITERALS:
            return LITERALS[text]
        if text in DTYPES:
            return DTYPES[text]
        if re.fullmatch(r"-?(inf|\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+)", text):
            return float(text)
        return parse_dim(text[4:-1] if text.startswith("dim(") else text)

    def source_until(self, *ends: str) -> str:
        """The text up to the first of ``ends`` that is outside parentheses."""
        start, depth = self.at, 0
        while depth or self.now.text not in ends:
            depth += {"(": 1, ")": -1}.get(self.take().text, 0)
        if self.at == start:
            self.fail("expected a value")
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    def known_class(self, scope: type, name: str) -> type[Any]:
        known = vars(sys.modules[scope.__module__]).get(name)
        if not isinstance(known, type):
            self.fail(f"{scope.__module__} knows no class {name}")
        return known

    def enum_member(self, scope: type[Any]) -> enum.Enum:
        name, member = self.now.text.rsplit(".", 1)
        cls = self.known_class(scope, name)
        if not issubclass(cls, enum.Enum) or member not in cls.__members__:
            self.fail(f"{name} is no enum with a member {member}")
        self.at += 1
        return cls.__members__[member]

    def instance(self, scope: type[Any]) -> Any:
        cls = self.known_class(scope, self.now.text)
        if not dataclasses.is_dataclass(cls) or issubclass(cls, Op | DType):
            self.fail(f"{self.now.text} is not a dataclass of attributes")
        self.at += 1
        self.expect("(")
        fields = dict(self.listed(lambda: self.attribute(cls), ")"))
        return self.make(cls, fields)


def _value_name(label: str) -> str:
    """The name of the value with this label: ``x`` for ``%x`` and ``%x~1``, and no name for ``%0``."""
    stem = re.sub(r"~\d+$", "", label[1:])
    if stem.startswith('"'):
        return unquote(stem)
    return "" if stem.isdigit() else stem
