"""Trees of containers whose leaves are inputs or outputs (pytrees): the arguments and the result of the
``forward`` of a PyTorch module, as the metadata of a model stores them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from graphwright.records import dataclass, field

METADATA: Final = "graphwright.forward"
"""Metadata key of a :class:`Forward`, in JSON."""
_MISSING: Final = object()


@dataclass(frozen=True)
class Tensor:
    """An input or output of the model."""

    name: str


@dataclass(frozen=True)
class Number:
    """A Python int: an input whose first dim it is, or an output that contains it."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A value that is the same in every call."""

    value: bool | int | float | str | None


@dataclass(frozen=True)
class Items:
    """A list or a tuple."""

    items: tuple[Tree, ...]
    is_tuple: bool


@dataclass(frozen=True)
class Fields:
    """A dict, or an object with these attributes, of the class named by ``record``."""

    fields: tuple[tuple[str | int, Tree], ...]
    record: str = ""


Tree: TypeAlias = Tensor | Number | Constant | Items | Fields


def leaves(tree: Tree) -> Iterator[Tensor | Number | Constant]:
    """The leaves of ``tree``, in order."""
    match tree:
        case Items(items):
            for each in items:
                yield from leaves(each)
        case Fields(fields):
            for _, each in fields:
                yield from leaves(each)
        case _:
            yield tree


def built(tree: Tree, leaf: Callable[[str], Any]) -> Any:
    """The Python value for ``tree``, with objects as dicts of their attributes. ``leaf`` returns arrays by
    name.
    """
    match tree:
        case Tensor(name):
            return leaf(name)
        case Number(name):
            return int(leaf(name))
        case Constant(value):
            return value
        case Items(items, is_tuple):
            children = [built(each, leaf) for each in items]
            return tuple(children) if is_tuple else children
        case Fields(fields):
            return {key: built(each, leaf) for key, each in fields}


def described(tree: Tree) -> str:
    """``tree`` in Python-like notation: ``{k: [array, array]}``."""
    match tree:
        case Constant(value):
            return repr(value)
        case Items(items, is_tuple):
            texts = ", ".join(map(described, items))
            return f"({texts})" if is_tuple else f"[{texts}]"
        case Fields(fields):
            return "{" + ", ".join(f"{key}: {described(each)}" for key, each in fields) + "}"
        case _:
            return "array" if isinstance(tree, Tensor) else "number"


@dataclass(frozen=True)
class Forward:
    """The parameters of a ``forward``, the first ``positional`` of which can be passed by position, and its
    result.
    """

    parameters: tuple[tuple[str, Tree], ...]
    positional: int
    result: Tree

    def to_json(self) -> str:
        """The text that :func:`forward_from` reads."""
        plain = [[[name, _encode(tree)] for name, tree in self.parameters], self.positional]
        return json.dumps([*plain, _encode(self.result)], separators=(",", ":"))


def forward_from(metadata: Mapping[str, str]) -> Forward | None:
    """The Forward in ``metadata``; None if there is none, or it is malformed."""
    text = metadata.get(METADATA)
    if text is None:
        return None
    try:
        parameters, positional, result = json.loads(text)
        named = tuple((str(name), _decode(tree)) for name, tree in parameters)
        return Forward(named, int(positional), _decode(result))
    except (ValueError, TypeError, LookupError, AttributeError, StopIteration, RecursionError):
        return None  # the text is not trusted


def _encode(tree: Tree) -> Any:
    match tree:
        case Tensor(name):
            return {"tensor": name}
        case Number(name):
            return {"number": name}
        case Constant(value):
            return {"constant": value}
        case Items(items, is_tuple):
            return {"tuple" if is_tuple else "list": list(map(_encode, items))}
        case Fields(fields, record):
            return {"record" if record else "dict": [[k, _encode(v)] for k, v in fields], "class": record}


def _decode(plain: Any) -> Tree:
    kind, held = next(iter(plain.items()))
    if kind in ("tensor", "number"):
        return (Tensor if kind == "tensor" else Number)(str(held))
    if kind == "constant":
        if not isinstance(held, bool | int | float | str | None):
            raise ValueError(f"{type(held).__name__} is not a constant")
        return Constant(held)
    if kind in ("tuple", "list"):
        return Items(tuple(map(_decode, held)), kind == "tuple")
    if kind in ("dict", "record"):
        return Fields(tuple((_key(key), _decode(tree)) for key, tree in held), str(plain["class"]))
    raise ValueError(f"{kind!r} is not a kind of tree")


def _key(given: Any) -> str | int:
    return given if isinstance(given, int) else str(given)


@dataclass
class Reader:
    """Flattens arguments into feeds by input name; mismatches are collected in ``faults``."""

    inputs: Sequence[str]
    feeds: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def read(self, tree: Tree, given: Any, where: str) -> None:
        """Adds the feeds in ``given``, the argument called ``where``, whose structure is ``tree``."""
        match tree:
            case Tensor(name) | Number(name) if name not in self.inputs:
                self.faults.append(f"{where} is a constant in this model, not an input")
            case Tensor(name):
                self.feeds[name] = given
            case Number(name) if isinstance(given, int) and given >= 0:
                self.sizes[name] = given
            case Number():
                self.faults.append(f"{where} must be a number >= 0, not {given!r:.100}")
            case Constant(value):
                if given is not value and given != value:
                    self.faults.append(
                        f"{where} was {value!r} when the model was exported, and cannot be changed"
                    )
            case Items(items):
                self._items(items, given, where)
            case Fields(fields):
                for key, each in fields:
                    held = given.get(key, _MISSING) if isinstance(given, Mapping) else _attribute(given, key)
                    self._field(each, held, f"{where}.{key}")

    def leave_out(self, tree: Tree, where: str) -> None:
        """Handles an argument ``where`` that is absent: a fault, unless ``tree`` contains only constants."""
        names = (leaf.name for leaf in leaves(tree) if not isinstance(leaf, Constant))
        if any(name in self.inputs for name in names):
            self.faults.append(f"{where} is missing")

    def _items(self, items: Sequence[Tree], given: Any, where: str) -> None:
        if not isinstance(given, list | tuple):
            self.faults.append(f"{where} must be a list of {len(items)} elements, not {type(given).__name__}")
        elif len(given) != len(items):
            self.faults.append(f"{where} must be a list of {len(items)} elements, but has {len(given)}")
        else:
            for k, (each, held) in enumerate(zip(items, given, strict=True)):
                self.read(each, held, f"{where}.{k}")

    def _field(self, tree: Tree, held: Any, where: str) -> None:
        if held is _MISSING:
            self.leave_out(tree, where)
        else:
            self.read(tree, held, where)


def _attribute(given: Any, key: str | int) -> Any:
    return getattr(given, str(key), _MISSING)
