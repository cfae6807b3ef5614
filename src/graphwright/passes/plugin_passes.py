"""Users' rules and passes: where in the pipeline they run, and checks that they leave a valid graph."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.inference.infer import compatible
from graphwright.ir.match import Match, P, Rule
from graphwright.ir.op.plugin_ops import defined_at, guarded, is_plugin_op, plugin_of
from graphwright.ir.refusal import Refusal
from graphwright.ir.verify import verify
from graphwright.passes.base import Known, Pass, Record
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass, replace


class Point(enum.StrEnum):
    """A point of the pipeline at which users' rules and passes can run; see ``compiler/pipeline.py``."""

    IMPORTED = "imported"
    """On the ops of the model, with inferred types, before graphwright's rewrites."""
    SIMPLIFIED = "simplified"
    """After graphwright's rewrites, before ops are decomposed."""
    DECOMPOSED = "decomposed"
    """On the decomposed ops, which are then fused and given kernels."""


def register(*items: Rule | Pass, at: str = Point.IMPORTED) -> None:
    """Runs rules and passes on every model that is compiled from now on, in the order of
    registration.

    Raises PluginError for other objects, an unknown point, and a name that is already taken.
    """
    if at not in list(Point):
        hint = f"the points are {', '.join(Point)}"
        raise PluginError(Diagnostic("plugin-class", f"there is no pipeline point {at!r}", hint=hint))
    for item in items:
        if not isinstance(item, Rule | Pass):
            message = f"{type(item).__name__} is neither a Rule nor a Pass"
            raise PluginError(Diagnostic("plugin-class", message))
        registered = (
            _of_rule(item) if isinstance(item, Rule) else PluginPass(item, type(item), f"pass {item.name}")
        )
        known = _PASSES.get(registered.name)
        if known is not None and known[1].plugin != registered.plugin:
            message = (
                f"{registered.name!r} of {registered.plugin} has the same name as one of {known[1].plugin}"
            )
            raise PluginError(
                Diagnostic("plugin-clash", message, defined_at(registered.author), "give it another name")
            )
        _PASSES[registered.name] = Point(at), registered


def passes_at(point: Point) -> tuple[Pass, ...]:
    """The passes registered at ``point``."""
    return tuple(each for where, each in _PASSES.values() if where is point)


def registered_passes() -> list[tuple[Point, PluginPass]]:
    """All registered passes, rules included, with their points."""
    return list(_PASSES.values())


@dataclass(frozen=True, eq=False)
class PluginPass(Pass):
    """A user's pass, after which the module is verified."""

    inner: Pass
    author: type | Callable[..., Any]
    """A class or function from the file that defines it."""
    name: str
    requires: Known = Known.TYPES

    @property
    def plugin(self) -> str:
        """The plugin that it belongs to."""
        return plugin_of(self.author)

    def run(self, module: Module, record: Record) -> bool:
        modified = guarded(lambda: self.inner.run(module, record), self.author, self.name)
        if modified or not isinstance(self.inner, RulePass):
            verify(module, f"after {self.name} of {self.plugin}")
        return bool(modified)


_PASSES: Final[dict[str, tuple[Point, PluginPass]]] = {}
"""By name."""


def _of_rule(rule: Rule) -> PluginPass:
    """A pass with this rule alone, so that errors and reports name it."""
    if not isinstance(rule.pattern, P) or not callable(rule.check) or not callable(rule.rewrite):
        message = f"rule {rule.name!r} needs a pattern P(...) and two functions, check and rewrite"
        raise PluginError(Diagnostic("plugin-class", message))
    name = f"rule {rule.name}"

    def check(found: Match) -> str | Refusal | None:
        reason = guarded(lambda: rule.check(found), rule.check, f"check of {name}")
        if reason is not None and not isinstance(reason, str | Refusal):
            message = (
                f"check of {name} returned {reason!r}: it must return a reason against the rewrite, or None"
            )
            raise PluginError(Diagnostic("plugin-rule", message, defined_at(rule.check)))
        return reason

    def rewrite(builder: Builder, found: Match) -> Sequence[Value] | str | Refusal:
        replacement = guarded(lambda: rule.rewrite(builder, found), rule.rewrite, f"rewrite of {name}")
        if isinstance(replacement, str | Refusal):
            return replacement
        fault = replacement_fault(replacement, found.root, found.module)
        if fault:
            message = f"rewrite of {name} {fault} (node {found.root.location})"
            raise PluginError(Diagnostic("plugin-rule", message, defined_at(rule.rewrite)))
        return (replacement,) if isinstance(replacement, Value) else replacement

    checked = replace(rule, check=check, rewrite=rewrite)
    return PluginPass(_OneRule(name, (checked,)), _user_function(rule), name)


class _OneRule(RulePass):
    """Records its rule even if it was never applied."""

    def run(self, module: Module, record: Record) -> bool:
        record.did(self.rules[0].name, 0)
        return super().run(module, record)


def _user_function(rule: Rule) -> Callable[..., Any]:
    """A function of the rule from the user's own file."""
    return rule.rewrite if is_plugin_op(rule.rewrite) else rule.check


def replacement_fault(replacement: object, node: Node, module: Module) -> str:
    """The fault of ``replacement``, which a user's function returned for ``node``; empty if there is none."""
    values = (replacement,) if isinstance(replacement, Value) else replacement
    if not isinstance(values, list | tuple) or not all(isinstance(value, Value) for value in values):
        return f"returned {replacement!r} instead of a value for each output"
    if len(values) != len(node.outputs):
        return f"returned {len(values)} values for {len(node.outputs)} outputs"
    for value, output in zip(values, node.outputs, strict=True):
        if not compatible(value.type, output.type, module.symbols):
            return f"returned {value.type} instead of {output.type}"
    return ""
