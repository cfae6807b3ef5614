"""Ops by method name: their signatures, and their construction from a call."""

from __future__ import annotations

import difflib
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import graphwright.ops
from graphwright.builder.errors import fault
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.op import Op, registered_ops
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.op.region_op import RegionOp
from graphwright.ir.symbols import Expr, SymbolError, parse_dim
from graphwright.ir.types import DTYPES, DType, dtype_of
from graphwright.records import MISSING, fields
from graphwright.support.message_text import did_you_mean

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=1)
def _classes(names: tuple[str, ...], classes: tuple[type[Op], ...]) -> Mapping[str, type[Op]]:
    """The public ops among ``classes``, by method name."""
    public = {method_name(name): cls for name, cls in zip(names, classes, strict=True) if _is_public(cls)}
    return dict(sorted(public.items()))


def op_classes() -> Mapping[str, type[Op]]:
    """The ops that are methods of GraphBuilder, by :func:`method_name`: the ops with an ONNX import and the
    ops of plugins.
    """
    graphwright.ops.load()
    known = registered_ops()
    return _classes(tuple(known), tuple(known.values()))


def _is_public(cls: type[Op]) -> bool:
    return bool(cls.onnx or is_plugin_op(cls)) and cls is not Constant and not issubclass(cls, RegionOp)


def method_name(op: str) -> str:
    """``layer_normalization`` for ``LayerNormalization``, ``matmul`` for ``MatMul``, ``not_`` for ``Not``."""
    name = _WORDS.sub("_", op.replace(".", "_")).lower()
    name = name.replace("mat_mul", "matmul").replace("q_linear", "qlinear")
    return f"{name}_" if keyword.iskeyword(name) else name


def find_op(name: str) -> type[Op] | None:
    """The op with the method name ``name``, with or without underscores."""
    classes = op_classes()
    if name in classes:
        return classes[name]
    plain = name.replace("_", "").lower()
    return next((cls for each, cls in classes.items() if each.replace("_", "") == plain), None)


def unknown_op(name: str, own: Sequence[str]) -> str:
    """The message that there is no op ``name``, with similar names."""
    close = difflib.get_close_matches(name.lower(), [*op_classes(), *own], 3)
    meant = f". Did you mean: {' or '.join(map(repr, close))}?" if close else ""
    return f"there is no op {name!r}{meant}"


def operands_of(cls: type[Op]) -> list[inspect.Parameter]:
    """The operands of an op, as positional parameters."""
    found = _parameters(cls.infer)[1:]  # the first is the Inference
    if [each.kind for each in found] != [inspect.Parameter.VAR_POSITIONAL] or is_plugin_op(cls):
        return found
    return _parameters(cls.reference) or found  # elementwise ops share a variadic infer


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())[1:]


def attributes_of(cls: type[Op]) -> dict[str, Any]:
    """The attributes of an op with their declared types, in order."""
    return {field.name: field.type for field in fields(cls)}


def signature(cls: type[Op]) -> inspect.Signature:
    """The signature of the op's method: operands by position, then attributes by keyword."""
    types = attributes_of(cls)
    operands = [
        each.replace(
            name=f"{each.name}_"
            if each.name in types
            else each.name,  # an operand that can replace an attribute
            annotation=inspect.Parameter.empty,
            kind=each.kind if each.kind is each.VAR_POSITIONAL else each.POSITIONAL_ONLY,
            default=None
            if number in cls.optional_inputs and each.kind is not each.VAR_POSITIONAL
            else each.empty,
        )
        for number, each in enumerate(operands_of(cls))
    ]
    required = inspect.Parameter.empty
    attributes = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=required if default is MISSING else default,
        )
        for name, default in cls.attribute_defaults.items()
    ]
    return inspect.Signature([*operands, *attributes])


def make_op(cls: type[Op], given: Mapping[str, Any]) -> Op:
    """The op with the attributes ``given``. Raises ModelError for unknown and missing attributes."""
    types = attributes_of(cls)
    unknown = [name for name in given if name not in types]
    known = f"its attributes are {', '.join(types) or 'none'}"
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise fault("attribute", f"{cls.name} has no attribute {names}", did_you_mean(unknown, types) + known)
    missing = [n for n in types if n not in given and cls.attribute_defaults[n] is MISSING]
    if missing:
        raise fault("attribute", f"{cls.name} needs the attribute {', '.join(missing)}", known)
    return cls(**{name: _attribute(cls, name, types[name], value) for name, value in given.items()})


def _attribute(cls: type[Op], name: str, kind: object, value: Any) -> Any:
    """``value`` as the op stores it: a tuple for a list, a Python number for a NumPy number, a dtype or a
    size for its name.
    """
    declared = kind.__name__ if isinstance(kind, type) else str(kind)
    try:
        if declared.startswith("DType"):
            return _dtype(value)
        stored = _to_python(value, is_dim="Dim" in declared)
    except (TypeError, ValueError, KeyError, SymbolError) as error:
        raise fault("attribute", f"{cls.name}: attribute {name} is {value!r:.60}: {error}") from error
    if _is_of(declared, stored):
        return stored
    hint = f"as in {name}=({value!r:.60}, ...)" if _is_of(declared, (stored,)) else ""
    raise fault("attribute", f"{cls.name}: attribute {name} is {value!r:.60}, not {declared}", hint)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "Number": lambda value: isinstance(value, int | float | Expr) and not isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "Dim": lambda value: isinstance(value, int | Expr) and not isinstance(value, bool),
}


def _is_of(declared: str, value: Any) -> bool:
    """Whether ``value`` has the declared type. Types that only a plugin knows accept any value."""
    if " | " in declared:
        return any(_is_of(each, value) for each in declared.split(" | "))
    if declared.startswith("tuple[") and declared.endswith("]"):
        parts = declared[len("tuple[") : -1].split(", ")
        if not isinstance(value, tuple):
            return False
        kinds = parts[:1] * len(value) if parts[1:] == ["..."] else parts
        return len(kinds) == len(value) and all(map(_is_of, kinds, value))
    return declared not in _KINDS or _KINDS[declared](value)


def _dtype(value: Any) -> DType | None:
    if value is None or isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    return dtype_of(np.empty(0, value))


def _to_python(value: Any, is_dim: bool) -> Any:
    if isinstance(value, list | tuple | range):
        return tuple(_to_python(item, is_dim) for item in value)
    if isinstance(value, np.ndarray):
        return _to_python(value.tolist(), is_dim)
    if isinstance(value, np.generic):
        return value.item()
    return parse_dim(value) if is_dim and isinstance(value, str) else value


def check_operands(op: Op, operands: Sequence[object]) -> None:
    """Raises ModelError for a wrong number of operands, or a missing one."""
    parameters = operands_of(type(op))
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_POSITIONAL]
    optional = [n for k, n in enumerate(names) if k in op.optional_inputs or parameters[k].default is None]
    required = len(names) - len(optional)
    is_variadic = len(names) < len(parameters)
    if len(operands) < required or (len(operands) > len(names) and not is_variadic):
        listed = ", ".join(f"{n} (optional)" if n in optional else n for n in names) or "none"
        more = " and any number of others" if is_variadic else ""
        raise fault(
            "operands", f"{op.name} takes the operands {listed}{more}, but this call gives {len(operands)}"
        )
    for name, value in zip(names, operands, strict=False):
        if value is None and name not in optional and not is_variadic:
            raise fault("operands", f"{op.name} needs its operand {name}")
