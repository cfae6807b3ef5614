"""Finds out how the op of an ONNX node is translated: by a function of the model, an import function, or a
function body of the specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import defs

from graphwright.frontends.onnx.faults import Fault, Report, text
from graphwright.frontends.onnx.opsets import Mappings, domain_of, has_body, opset_versions, schema_of
from graphwright.ir.op import Import
from graphwright.records import dataclass

Key = tuple[str, str, str]
"""Domain, op type, overload."""


class Unsupported(Exception):
    """There is no translation for an op. :meth:`Catalog.report_all_unsupported` reports all such nodes."""


@dataclass(frozen=True)
class Translation:
    """How an op is translated: inline ``function``, call ``mapping``, or expand the body of ``schema``."""

    key: Key
    version: int
    function: onnx.FunctionProto | None = None
    mapping: Import | None = None
    schema: defs.OpSchema | None = None


class Catalog:
    """The functions of one model, and the import functions of all registered ops."""

    def __init__(self, functions: Sequence[onnx.FunctionProto], report: Report) -> None:
        self._report = report
        self._mappings = Mappings.collect()
        self._functions: dict[Key, onnx.FunctionProto] = {}
        for function in functions:
            try:
                key = (domain_of(text(function.domain)), text(function.name), text(function.overload))
            except Fault as fault:
                report.add(fault, "a function")
                continue
            if self._functions.setdefault(key, function) is not function:
                report.add(
                    Fault("duplicate-name", "the function is defined twice", "keep one of them"), key[1]
                )

    def translation(self, node: onnx.NodeProto, opsets: Mapping[str, int]) -> Translation:
        """The translation of ``node`` for these opset versions. Functions of the model take precedence.
        Raises Unsupported and Fault.
        """
        key = (domain_of(text(node.domain)), text(node.op_type), text(node.overload))
        domain, op_type, _ = key
        if not op_type:
            raise Fault("schema", "the node names no op", "the model is incomplete: export it again")
        version = self._version(domain, opsets)
        if key in self._functions:
            return Translation(key, version or 1, function=self._functions[key])
        if version is None:
            hint = "the model lacks an opset_import entry: export it again"
            raise Fault("opset", f"{op_type}: the model imports no opset of domain {domain!r}", hint)
        mapping, schema = self._mappings.find(domain, op_type, version), schema_of(domain, op_type, version)
        if mapping is None and (schema is None or not has_body(schema, version)):
            raise Unsupported
        return Translation(key, version, mapping=mapping, schema=schema)

    def _version(self, domain: str, opsets: Mapping[str, int]) -> int | None:
        """The opset version of ``domain``. If the model does not import a custom domain, this is the newest
        known version, as in ONNX Runtime; None if no op of the domain is known.
        """
        version = opsets.get(domain)
        return self._mappings.newest(domain) if version is None and domain else version

    def report_all_unsupported(self, nodes: Sequence[onnx.NodeProto], opsets: Mapping[str, int]) -> bool:
        """Reports every unsupported node in ``nodes``, their subgraphs and functions. Returns whether there
        is one.
        """
        found = False
        visited: set[Key] = set()
        pending = [(node, opsets, "") for node in reversed(nodes)]
        while pending:
            node, versions, trail = pending.pop()
            try:
                function = self.translation(node, versions).function
                if function is not None and (key := self.translation(node, versions).key) not in visited:
                    visited.add(key)
                    imports = ((text(o.domain), o.version) for o in function.opset_import)
                    inner, path = opset_versions(imports) or versions, f"{trail}{node_name(node)}/"
                    pending += [(child, inner, path) for child in reversed(function.node)]
            except Unsupported:
                self.report_unsupported(node, versions, trail)
                found = True
            except Fault:
                pass  # reported when the node was read
            for attribute in node.attribute:
                pending += [(child, versions, trail) for child in reversed(attribute.g.node)]
        return found

    def report_unsupported(self, node: onnx.NodeProto, opsets: Mapping[str, int], trail: str) -> None:
        """Reports a node whose op is not supported."""
        domain, op_type = domain_of(text(node.domain)), text(node.op_type)
        versions = self._mappings.versions(domain, op_type)
        hint = (
            "load a plugin that maps it (--plugin FILE or GRAPHWRIGHT_PLUGINS=FILE), or add a function of "
            "that name to the model"
        )
        if versions:
            known = ", ".join(map(str, versions))
            hint = f"supported versions are {known}: convert the model to opset {versions[0]} or later"
        name = f"{domain}.{op_type}" if domain else op_type
        version = self._version(domain, opsets)
        self._report.unsupported(f"{name} at opset {version}", hint, trail + node_name(node))


def node_name(node: onnx.NodeProto) -> str:
    """The name of the node, or its op and first output."""
    first = next((output for output in node.output if output), "")
    for candidate in (node.name, f"{node.op_type}:{first}"):
        if candidate:
            return candidate if isinstance(candidate, str) else repr(candidate)
    return "a node"
