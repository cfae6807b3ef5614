"""Parses types, layouts, and ops with their attributes in the text format of modules."""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from graphwright.errors import ModelError, UnknownOpError
from graphwright.ir.dtypes import CONTAINERS
from graphwright.ir.op import ConstRef, Op, op_class
from graphwright.ir.symbols import parse_dim
from graphwright.ir.text.printer import LITERALS
from graphwright.ir.text.tokens import TokenStream
from graphwright.ir.types import DTYPES, DType, Layout, TensorType, dtype_named, parse_type

_FUNCTIONS = frozenset({"floordiv", "mod", "min", "max", "dim"})
_typed = lru_cache(maxsize=4096)(parse_type)
T = TypeVar("T")


class AttributeParser(TokenStream):
    """The part of the parser for ops, types and attribute values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.labels: dict[str, ConstRef] = {}
        """The constants that were declared, by label."""

    def op_head(self) -> tuple[type[Op], dict[str, Any]]:
        """``NAME[ATTRIBUTE, ...]``: the class of an op, and its attributes."""
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
        """``NAME=VALUE``"""
        name = self.token_of("name", "an attribute's name")
        self.expect("=")
        return name, self.value(scope)

    def make(self, cls: Callable[..., T], attributes: dict[str, Any]) -> T:
        """An instance of ``cls``, or a fault at the current position."""
        try:
            return cls(**attributes)
        except TypeError as error:
            self.fail(str(error))

    def typed(self) -> tuple[TensorType, Layout | None, str]:
        """``TYPE layout LAYOUT on "DEVICE"``"""
        type = self.tensor_type()
        layout = self.layout() if self.accept("layout") else None
        return type, layout, self.string() if self.accept("on") else ""

    def tensor_type(self) -> TensorType:
        """``DTYPE[DIM, ...]``"""
        start = self.now.start
        while self.now.text != "]":
            self.take()
        self.at += 1
        return _typed(self.text[start : self.tokens[self.at - 1].end])

    def layout(self) -> Layout:
        """``(AXIS ..., AXIS/SIZE, ..., zero)``: the order of axes, the blocks, whether padding is zero."""
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
            self.fail(f"{name} is not a dtype")

    def constant_ref(self) -> ConstRef:
        """``#LABEL`` of a declared constant."""
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
            self.fail(f"{scope.__module__} has no class {name}")
        return known

    def enum_member(self, scope: type[Any]) -> enum.Enum:
        """``CLASS.MEMBER``"""
        name, member = self.now.text.rsplit(".", 1)
        cls = self.known_class(scope, name)
        if not issubclass(cls, enum.Enum) or member not in cls.__members__:
            self.fail(f"{name} is not an enum with a member {member}")
        self.at += 1
        return cls.__members__[member]

    def instance(self, scope: type[Any]) -> Any:
        """``CLASS(NAME=VALUE, ...)``"""
        cls = self.known_class(scope, self.now.text)
        if not dataclasses.is_dataclass(cls) or issubclass(cls, Op | DType):
            self.fail(f"{self.now.text} is not a dataclass of attributes")
        self.at += 1
        self.expect("(")
        fields = dict(self.listed(lambda: self.attribute(cls), ")"))
        return self.make(cls, fields)
