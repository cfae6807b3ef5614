"""Names of dynamic sizes that users gave with ``torch.export.Dim("batch", max=64)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch.export import Dim

from graphwright.errors import FeedError
from graphwright.ir.graph import Module
from graphwright.ir.pytree import Fields, Forward, Items, Tensor, Tree
from graphwright.passes.bind_sizes import shape_inputs


def name_dims(module: Module, forward: Forward, dynamic_shapes: Any) -> None:
    """Gives dynamic sizes of the inputs of ``module`` their names in ``dynamic_shapes``."""
    inputs = {value.name: value for value in module.main.inputs}
    names: dict[str, list[str | None]] = {}
    for position, (name, tree) in enumerate(forward.parameters):
        for leaf, given in _leaves(tree, _entry(dynamic_shapes, name, position)):
            for axis, dim in _axes(given):
                if isinstance(dim, Dim) and type(dim) is Dim and leaf in inputs:
                    sizes = names.setdefault(leaf, [None] * len(inputs[leaf].type.dims))
                    sizes[axis] = dim.__name__
    try:
        shape_inputs(module, names)
    except FeedError:  # one size has two names: keep the names of PyTorch
        return


def _entry(given: Any, key: str | int, position: int) -> Any:
    """The entry of ``given`` for an item of a container, by key or by position."""
    if isinstance(given, Mapping):
        return given.get(key)
    return given[position] if isinstance(given, Sequence) and position < len(given) else None


def _leaves(tree: Tree, given: Any) -> Iterator[tuple[str, Any]]:
    """The name of each tensor in ``tree``, with its entry of ``given``."""
    match tree:
        case Tensor(name):
            yield name, given
        case Items(items):
            for k, each in enumerate(items):
                yield from _leaves(each, _entry(given, k, k))
        case Fields(fields):
            for k, (key, each) in enumerate(fields):
                yield from _leaves(each, _entry(given, key, k))


def _axes(given: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, tuple | list):
        yield from enumerate(given)
