"""Opset versions, and the import function of an op for a version: the newest one up to this version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx
from onnx import defs

from graphwright.errors import Diagnostic, PluginError
from graphwright.frontends.onnx.faults import Fault
from graphwright.ir.op import Import, Op, registered_ops
from graphwright.ir.op.plugin_ops import defined_at, is_plugin_op
from graphwright.records import dataclass

OLDEST, NEWEST = 1, 28
"""The supported opsets of the default domain."""


def domain_of(name: str) -> str:
    """The normalized domain name: ``ai.onnx`` is the default domain."""
    return "" if name == "ai.onnx" else name


def opset_versions(imports: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The version of each domain. Raises Fault for contradicting and for unsupported versions."""
    versions: dict[str, int] = {}
    for name, version in imports:
        domain = domain_of(name)
        if versions.setdefault(domain, version) != version:
            raise Fault(
                "opset", f"domain {name!r} is imported with versions {versions[domain]} and {version}"
            )
    version = versions.get("", OLDEST)
    if not OLDEST <= version <= NEWEST:
        hint = "convert the model: onnx.version_converter.convert_version(model, 21)"
        raise Fault("opset", f"opset {version} is not supported, only {OLDEST} to {NEWEST}", hint)
    return versions


@dataclass(frozen=True)
class Mappings:
    """The import functions of all registered ops, by ONNX op."""

    table: Mapping[tuple[str, str], list[tuple[int, Import]]]

    @classmethod
    def collect(cls) -> Mappings:
        """Collects the ``onnx`` tables of all ops. Raises PluginError if two ops map the same ONNX op and one
        of them is a user's, otherwise ValueError.
        """
        table: dict[tuple[str, str], dict[int, Import]] = {}
        claims: dict[tuple[str, str, int], type[Op]] = {}
        for op in registered_ops().values():
            for key, function in op.onnx.items():
                domain = domain_of(key[2] if len(key) > 2 else "")
                versions = table.setdefault((domain, key[0]), {})
                first = claims.setdefault((domain, key[0], key[1]), op)
                if versions.setdefault(key[1], function) is not function:
                    raise _clash(key, first, op)
        return cls({key: sorted(found.items(), key=lambda item: item[0]) for key, found in table.items()})

    def versions(self, domain: str, op_type: str) -> list[int]:
        """The versions of an op that have an import function."""
        return [since for since, _ in self.table.get((domain, op_type), ())]

    def newest(self, domain: str) -> int | None:
        """The newest version of ``domain`` with an import function; None if there is none."""
        versions = (found[-1][0] for (of, _), found in self.table.items() if of == domain)
        return max(versions, default=None)

    def find(self, domain: str, op_type: str, version: int) -> Import | None:
        """The newest import function whose version is at most ``version``."""
        fitting = [function for since, function in self.table.get((domain, op_type), ()) if since <= version]
        return fitting[-1] if fitting else None


def _clash(key: tuple[str, int] | tuple[str, int, str], first: type[Op], second: type[Op]) -> Exception:
    own, other = (second, first) if is_plugin_op(second) else (first, second)
    message = f"{own.name} maps {key}, which {other.name} already maps"
    if not is_plugin_op(own):
        return ValueError(message)
    hint = "give it another name, or a domain of your own: (name, since_version, domain)"
    return PluginError(Diagnostic("plugin-clash", message, defined_at(own), hint))


@lru_cache(maxsize=4096)
def schema_of(domain: str, op_type: str, version: int) -> defs.OpSchema | None:
    """The schema of an op in the ONNX specification; None if there is none."""
    try:
        return defs.get_schema(op_type, version, domain)
    except (defs.SchemaError, TypeError, OverflowError):
        return None


def has_body(schema: defs.OpSchema, version: int) -> bool:
    """Whether the specification defines the op as a function of simpler ops."""
    return any(v <= version for v in (*_plain_bodies(schema), *_depending_bodies(schema)))


def schema_function(
    schema: defs.OpSchema, node: onnx.NodeProto, types: Sequence[onnx.TypeProto], version: int
) -> onnx.FunctionProto | None:
    """The newest function body in the specification, up to ``version``, for these operand types."""
    plain = [v for v in _plain_bodies(schema) if v <= version]
    depending = [v for v in _depending_bodies(schema) if v <= version]
    source: Any = schema  # the methods below are missing in the stubs of onnx
    if plain:
        body = source.get_function_with_opset_version(max(plain))
    elif depending:
        operands = [t.SerializeToString() for t in types]
        body = source.get_context_dependent_function_with_opset_version(
            max(depending), node.SerializeToString(), operands
        )
    else:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    return function if body else None


def _plain_bodies(schema: Any) -> Sequence[int]:
    versions: Sequence[int] = schema.function_opset_versions
    return versions


def _depending_bodies(schema: Any) -> Sequence[int]:
    versions: Sequence[int] = schema.context_dependent_function_opset_versions
    return versions
