"""Metadata of ONNX nodes: fusion hints, and the PyTorch modules that nodes come from."""

from __future__ import annotations

import onnx

from graphwright.frontends.onnx.faults import Fault, text
from graphwright.frontends.onnx.name_scopes import NAME_SCOPES, modules_of
from graphwright.frontends.onnx.scope import Scope
from graphwright.ir.hints import KEY, NEVER


def read_hint(node: onnx.NodeProto, scope: Scope) -> None:
    """Records the fusion hint in the metadata of ``node``. Raises Fault if a node with the same source has a
    different hint.
    """
    hint = next((text(entry.value) for entry in node.metadata_props if text(entry.key) == KEY), None)
    if hint is None:
        return
    if not hint:
        raise Fault("hint", f"the metadata {KEY} is empty", hint=f"give the name of a group, or {NEVER}")
    (source,) = scope.builder.sources
    known = scope.builder.module.hints.setdefault(source, hint)
    if known != hint:
        message = (
            f"the metadata {KEY} is {hint!r} here, but {known!r} on another node that comes from {source}"
        )
        raise Fault(
            "hint", message, hint="give nodes with the same name or in the same function the same hint"
        )


def note_modules(node: onnx.NodeProto, scope: Scope) -> None:
    """Records the path of PyTorch modules in the metadata of ``node``."""
    scopes = next((text(p.value) for p in node.metadata_props if text(p.key) == NAME_SCOPES), None)
    if scopes is not None and (path := modules_of(scopes)):
        (source,) = scope.builder.sources
        scope.builder.module.scopes.setdefault(source, path)
