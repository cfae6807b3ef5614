"""Which import function serves an op of a model: the newest version not above the model's opset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import onnx
from onnx import defs

from graphwright.errors import Diagnostic, PluginError
from graphwright.frontends.onnx.faults import Fault
from graphwright.ir.op import Import, Op, registered_ops
from graphwright.ir.plugin_ops import defined_at, is_plugin_op
from graphwright.records import dataclass

OLDEST, NEWEST = 1, 28
"""Opsets of the default domain that are understood."""


def domain_of(name: str) -> str:
    """``ai.onnx`` is the default domain's other name."""
    return "" if name == "ai.onnx" else name


def opset_versions(imports: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Versions by domain; raises :class:`Fault` for a domain imported twice or a version out of bounds."""
    versions: dict[str, int] = {}
    for name, version in imports:
        domain = domain_of(name)
        if versions.setdefault(domain, version) != version:
            raise Fault("opset", f"domain {name!r} is imported as {versions[domain]} and as {version}")
    version = versions.get("", OLDEST)
    if not OLDEST <= version <= NEWEST:
        hint = "convert the model: onnx.version_converter.convert_version(model, 21)"
        raise Fault("opset", f"opset {version} is not supported, {OLDEST} to {NEWEST} are", hint)
    return versions


@dataclass(frozen=True)
class Mappings:
    """The import functions of all registered ops, by ONNX op."""

    table: Mapping[tuple[str, str], list[tuple[int, Import]]]

    @classmethod
    def collect(cls) -> Mappings:
        """Gather the ``onnx`` tables; two ops that claim the same entry are a defect: ValueError, or a
        PluginError where a user's op is one of them.
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
        """Versions with an import function."""
        return [since for since, _ in self.table.get((domain, op_type), ())]

    def newest(self, domain: str) -> int | None:
        """The newest version of ``domain`` with an import function; None if there is none."""
        versions = (found[-1][0] for (of, _), found in self.table.items() if of == domain)
        return max(versions, default=None)

    def find(self, domain: str, op_type: str, version: int) -> Import | None:
        """The newest function not above ``version``."""
        fitting = [function for since, function in self.table.get((domain, op_type), ()) if since <= version]
        return fitting[-1] if fitting else None


def _clash(key: tuple[str, int] | tuple[str, int, str], first: type[Op], second: type[Op]) -> Exception:
    own, other = (second, first) if is_plugin_op(second) else (first, second)
    message = f"{own.name} maps {key}, which {other.name} maps already"
    if not is_plugin_op(own):
        return ValueError(message)
    hint = "give it another name, or a domain of your own: (name, since_version, domain)"
    return PluginError(Diagnostic("plugin-clash", message, defined_at(own), hint))


@lru_cache(maxsize=4096)
def schema_of(domain: str, op_type: str, version: int) -> defs.OpSchema | None:
    """The ONNX specification of an op, if there is one."""
    try:
        return defs.get_schema(op_type, version, domain)
    except (defs.SchemaError, TypeError, OverflowError):
        return None


def has_body(schema: defs.OpSchema, version: int) -> bool:
    """Whether the specification defines the op by simpler ones."""
    return any(v <= version for v in (*_plain_bodies(schema), *_depending_bodies(schema)))


def schema_function(
    schema: defs.OpSchema, node: onnx.NodeProto, types: Sequence[onnx.TypeProto], version: int
) -> onnx.FunctionProto | None:
    """The specification's body of an op for these operands: the newest not above ``version``."""
    plain = [v for v in _plain_bodies(schema) if v <= version]
    depending = [v for v in _depending_bodies(schema) if v <= version]
    source: Any = schema  # onnx's stubs lack what follows
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
