"""Fusion hints, which ``graphwright.torch.fuse`` stores in the metadata of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import fx

from graphwright.errors import Collector, Diagnostic, ModelError
from graphwright.ir.build import Builder
from graphwright.ir.hints import KEY, NEVER
from graphwright.ir.refusal import Code

_CUSTOM = "custom"
"""The metadata key of user annotations, which PyTorch copies from graph to graph."""


def hint_of(node: fx.Node) -> str | None:
    """The fusion group of ``node``, or NEVER. Raises ModelError if the hint is not a string."""
    hint = (node.meta.get(_CUSTOM) or {}).get(KEY)
    if hint is not None and not (isinstance(hint, str) and hint):
        message = f"the metadata {KEY} is {hint!r}"
        raise ModelError(Diagnostic("hint", message, node.name, f"name a group, or give {NEVER!r}"))
    return hint


def note_hint(node: fx.Node, builder: Builder) -> None:
    """Records the hint of ``node`` for the sources of ``builder``. Raises ModelError if a node with the same
    source has a different hint.
    """
    hint = hint_of(node)
    if hint is None:
        return
    for source in builder.sources:
        known = builder.module.hints.setdefault(source, hint)
        if known != hint:
            message = f"a node in it is hinted {hint!r}, and another one {known!r}"
            raise ModelError(Diagnostic("hint", message, source, "give all nodes of a part the same hint"))


def drop_hints(graph: fx.Graph) -> None:
    """Removes the hints of ``graph``. PyTorch copies the hints of a forward graph to its backward graph."""
    for node in graph.nodes:
        if KEY in (node.meta.get(_CUSTOM) or {}):
            node.meta[_CUSTOM] = {name: each for name, each in node.meta[_CUSTOM].items() if name != KEY}


def refuse_split_groups(parts: Iterable[fx.Graph], left: Mapping[fx.Node, str]) -> None:
    """Raises ModelError for all groups that cannot be fused: their nodes are in several ``parts``, which are
    compiled separately, or in ``left``, which run in PyTorch.
    """
    faults = Collector(ModelError)
    first: dict[str, tuple[int, str]] = {}
    for number, part in enumerate(parts):
        for node in part.nodes:
            hint = hint_of(node)
            if hint is None or hint == NEVER:
                continue
            known, name = first.setdefault(hint, (number, node.name))
            if known != number:
                _add(faults, hint, name, node.name, "PyTorch runs an operator between them")
                first[hint] = (number, node.name)
    for node, why in left.items():
        hint = hint_of(node)
        if hint is not None and hint != NEVER:
            other = first.get(hint, (0, node.name))[1]
            _add(faults, hint, other, node.name, f"{node.name} is left to PyTorch: {why}")
    faults.raise_if_any()


def _add(faults: Collector, group: str, first: str, second: str, why: str) -> None:
    code = Code.NOT_ADJACENT.value
    message = f"cannot share a kernel, as the hinted group {group!r} requires: {why} [{code}]"
    faults.add("fusion-hint", message, f"{first} and {second}", f"change or remove the hint {KEY}")
