"""Lazy dataclasses: they behave as PEP 557 says, but each method is generated when it is first used.

The standard library's decorator compiles five methods of each class when its module is imported. For all
classes of a compilation this takes as long as all graph passes on a large model, and importing
``dataclasses`` takes a sixth of the import time of running an .om. Most classes use only few of these
methods.

Features that this package does not use are missing: slots, order, keyword-only and init-only fields. Type
checkers see the functions of the standard library, whose ``fields``, ``replace``, ``asdict`` and
``is_dataclass`` also accept these classes.
"""

from __future__ import annotations

import functools
import importlib
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

MISSING: Any = object()
"""Marks an argument or default that was not given."""


class _Field:
    """One field of a class, with the attributes of ``dataclasses.Field``."""

    __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

    def __init__(
        self,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        repr: bool = True,
        compare: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.type = "", ""
        self.default, self.default_factory = default, default_factory
        self.repr, self.compare, self.metadata = repr, compare, metadata or {}


def _dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, init: bool = True) -> Any:
    if cls is None:
        return functools.partial(_dataclass, frozen=frozen, eq=eq, init=init)
    known = _fields_of(cls)
    cls.__record__ = known
    methods: dict[str, Any] = {"__match_args__": tuple(known), "__repr__": _repr}
    if init:
        methods["__init__"] = _LazyAttribute(cls, "__init__", _init)
    if frozen:
        methods |= {"__setattr__": _set, "__delattr__": _delete}
    if eq:
        methods["__eq__"] = _LazyAttribute(cls, "__eq__", _equal)
        methods["__hash__"] = _LazyAttribute(cls, "__hash__", _hash) if frozen else None
    own = vars(cls)
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):  # None is due to an own __eq__
            setattr(cls, name, method)
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, _LazyAttribute(cls, name, functools.partial(_standard, frozen, name)))
    return cls


def _fields_of(cls: Any) -> dict[str, _Field]:
    """The fields of all bases and of the class itself; defaults stay attributes of the class."""
    known: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= vars(base).get("__record__", {})
    for name, kind in cls.__annotations__.items():
        if str(kind).partition("[")[0].endswith("ClassVar"):
            continue
        given = getattr(cls, name, MISSING)
        entry = given if isinstance(given, _Field) else _Field(given)
        entry.name, entry.type = name, kind
        if type(entry.default).__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name}: a mutable default needs a default_factory")
        known[name] = entry
        if entry is not given:
            continue
        if entry.default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, entry.default)
    return known


class _LazyAttribute:
    """A class attribute that is computed when it is first read."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, owner: type, name: str, make: Callable[[Any], Any]) -> None:
        self._owner, self._name, self._make = owner, name, make

    def __get__(self, instance: object, cls: type | None = None) -> Any:
        method = self._make(self._owner)
        setattr(self._owner, self._name, method)
        return method.__get__(instance, cls) if callable(method) else method


def _init(cls: Any) -> Any:
    parameters, statements = ["self"], []
    scope: dict[str, Any] = {"MISSING": MISSING, "_set": object.__setattr__}
    assignment = "_set(self, {0!r}, {1})" if cls.__setattr__ is _set else "self.{0} = {1}"
    for name, each in cls.__record__.items():
        parameter = value = name
        if each.default_factory is not MISSING:
            scope[f"_{name}"] = each.default_factory
            parameter, value = f"{name}=MISSING", f"_{name}() if {name} is MISSING else {name}"
        elif each.default is not MISSING:
            scope[f"_{name}"] = each.default
            parameter = f"{name}=_{name}"
        parameters.append(parameter)
        statements.append(assignment.format(name, value))
    if hasattr(cls, "__post_init__"):
        statements.append("self.__post_init__()")
    init = _compiled(cls, "__init__", parameters, statements or ["pass"], scope)
    init.__annotations__ = {name: each.type for name, each in cls.__record__.items()}
    return init


def _equal(cls: Any) -> Any:
    same = f"return {_values(cls, 'self')} == {_values(cls, 'other')}"
    statements = ["if other.__class__ is self.__class__:", f"    {same}", "return NotImplemented"]
    return _compiled(cls, "__eq__", ["self", "other"], statements, {})


def _hash(cls: Any) -> Any:
    return _compiled(cls, "__hash__", ["self"], [f"return hash({_values(cls, 'self')})"], {})


def _values(cls: Any, instance: str) -> str:
    """The source of a tuple of the compared fields."""
    return f"({''.join(f'{instance}.{n}, ' for n, each in cls.__record__.items() if each.compare)})"


def _compiled(
    cls: Any, name: str, parameters: Sequence[str], statements: Sequence[str], scope: dict[str, Any]
) -> Any:
    """Compiles a method of ``cls`` from source, with the names in ``scope``."""
    body = "".join(f"\n    {statement}" for statement in statements)
    exec(f"def {name}({', '.join(parameters)}):{body}", scope)
    function = scope[name]
    function.__module__, function.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    return function


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, each in self.__record__.items() if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _set(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, what: str) -> None:
    """Raises FrozenInstanceError, except for other attributes of a subclass that is not a dataclass
    itself.
    """
    if "__record__" in vars(type(self)) or name in self.__record__:
        error: type[Exception] = importlib.import_module("dataclasses").FrozenInstanceError
        raise error(f"cannot {what} field {name!r}")


def _standard(frozen: bool, attribute: str, cls: Any) -> Any:
    """The value of ``attribute`` that the standard library would set for a class with these fields."""
    standard = importlib.import_module("dataclasses")
    rows = []
    for each in cls.__record__.values():
        default = {} if each.default is MISSING else {"default": each.default}
        if each.default_factory is not MISSING:
            default = {"default_factory": each.default_factory}
        shown = {"repr": each.repr, "compare": each.compare, "metadata": each.metadata}
        rows.append((each.name, each.type, standard.field(**default, **shown)))
    twin = standard.make_dataclass(cls.__name__, rows, init=False, repr=False, eq=False, frozen=frozen)
    return getattr(twin, attribute)


def _fields(record: Any) -> tuple[_Field, ...]:
    return tuple(record.__record__.values())


def _replace(record: Any, /, **changes: Any) -> Any:
    cls = record.__class__
    if hasattr(cls, "__post_init__") or not changes.keys() <= cls.__record__.keys():
        state = {name: getattr(record, name) for name in cls.__record__}
        return cls(**{**state, **changes})
    copy = object.__new__(cls)  # no argument has a default to be found, and none is checked
    held = vars(record)
    state = held if len(held) == len(cls.__record__) else {name: held[name] for name in cls.__record__}
    vars(copy).update(state)
    vars(copy).update(changes)
    return copy


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
else:
    dataclass, field, fields, replace = _dataclass, _Field, _fields, _replace
