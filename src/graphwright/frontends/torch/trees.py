"""Converts PyTorch's tree specs to trees with named leaves."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils import _pytree

from graphwright.ir.pytree import Constant, Fields, Items, Tree

Leaf = Callable[[str], Tree]
"""Makes the next leaf, given its name."""


def tree_from(spec: Any, path: str, leaf: Leaf) -> Tree:
    """The tree of ``spec``. The name of a leaf is ``path`` and the keys to it, such as ``cache.k.0``."""
    if spec.is_leaf():
        return leaf(path)
    children, kind = spec.children(), spec.type
    names = _names(spec, len(children))
    if names is None:
        items = tuple(tree_from(child, _joined(path, k), leaf) for k, child in enumerate(children))
        return Items(items, kind not in (list, collections.deque))
    fields = tuple(
        (key, tree_from(child, _joined(path, key), leaf)) for key, child in zip(names, children, strict=True)
    )
    absent = tuple((str(name), Constant(None)) for name in _absent(spec))
    return Fields(fields + absent, "" if kind in _DICTS else _class_name(spec))


_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _names(spec: Any, count: int) -> Sequence[str | int] | None:
    """The keys of the children; None for lists, tuples, and containers without keys."""
    kind, context = spec.type, spec.context
    if kind in (list, tuple, collections.deque):
        return None
    if kind is collections.defaultdict:
        names = context[1]
    elif kind in _pytree.BUILTIN_TYPES and hasattr(context, "_fields"):
        names = context._fields
    elif _is_dataclass_context(context):
        names = context[0]
    else:
        names = context
    is_named = isinstance(names, list | tuple) and all(isinstance(each, str | int) for each in names)
    return names if is_named and len(names) == count else None


def _is_dataclass_context(context: Any) -> bool:
    """Whether ``context`` is that of ``torch.export.register_dataclass``: names of fields, and of fields
    that are None.
    """
    return isinstance(context, list) and len(context) == 2 and all(isinstance(c, list) for c in context)


def _absent(spec: Any) -> Sequence[str]:
    """The fields of a dataclass that are None."""
    return spec.context[1] if spec.type not in _DICTS and _is_dataclass_context(spec.context) else ()


def _class_name(spec: Any) -> str:
    held = spec.context if hasattr(spec.context, "_fields") else spec.type
    return str(getattr(held, "__name__", "object"))


def _joined(path: str, key: str | int) -> str:
    return f"{path}.{key}" if path else str(key)
