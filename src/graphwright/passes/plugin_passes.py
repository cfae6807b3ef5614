"""Users' own rules and passes: at which point of the pipeline they run, and that they leave a sound graph."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

from graphwright.errors import Diagnostic, PluginError
from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.infer import compatible
from graphwright.ir.match import Match, P, Rule
from graphwright.ir.plugin_ops import defined_at, guarded, is_plugin_op, plugin_of
from graphwright.ir.refusal import Refusal
from graphwright.ir.verify import verify
from graphwright.passes.base import Known, Pass, Record, RulePass
from graphwright.records import dataclass, replace


class Point(enum.StrEnum):
    """Where users' own rules and passes may run; see ``compiler/pipeline.py``."""

    IMPORTED = "imported"
    """On the model's own ops, before graphwright's rewriting; types are inferred."""
    SIMPLIFIED = "simplified"
    """Behind graphwright's rewriting, before ops are taken apart."""
    DECOMPOSED = "decomposed"
    """On the ops that are fused and get kernels."""


def register(*items: Rule | Pass, at: str = Point.IMPORTED) -> None:
    """Let rules and passes run on every model that is compiled from now on, in the order of registration.

    Raises PluginError for what is neither, for a point that is none, and for a name that is taken.
    """
    if at not in list(Point):
        hint = f"it is one of {', '.join(Point)}"
        raise PluginError(Diagnostic("plugin-class", f"there is no point {at!r} of the pipeline", hint=hint))
    for item in items:
        if not isinstance(item, Rule | Pass):
            message = f"{type(item).__name__} is neither a Rule nor a Pass"
            raise PluginError(Diagnostic("plugin-class", message))
        made = _of_rule(item) if isinstance(item, Rule) else PluginPass(item, type(item), f"pass {item.name}")
        known = _PASSES.get(made.name)
        if known is not None and known[1].plugin != made.plugin:
            message = f"{made.name!r} of {made.plugin} has the name of one of {known[1].plugin}"
            raise PluginError(
                Diagnostic("plugin-clash", message, defined_at(made.author), "give it another name")
            )
        _PASSES[made.name] = Point(at), made


def passes_at(point: Point) -> tuple[Pass, ...]:
    """What runs at ``point``."""
    return tuple(each for where, each in _PASSES.values() if where is point)


def registered_passes() -> list[tuple[Point, PluginPass]]:
    """All rules, as passes, and passes, with the points that they run at."""
    return list(_PASSES.values())


@dataclass(frozen=True, eq=False)
class PluginPass(Pass):
    """A user's pass; what it leaves is verified."""

    inner: Pass
    author: type | Callable[..., Any]
    """Whose file it stands in."""
    name: str
    requires: Known = Known.TYPES

    @property
    def plugin(self) -> str:
        """Who brings it."""
        return plugin_of(self.author)

    def run(self, module: Module, record: Record) -> bool:
        modified = guarded(lambda: self.inner.run(module, record), self.author, self.name)
        if modified or not isinstance(self.inner, RulePass):
            verify(module, f"after {self.name} of {self.plugin}")
        return bool(modified)


_PASSES: Final[dict[str, tuple[Point, PluginPass]]] = {}
"""By name; each checks what it did."""


def _of_pass(item: Pass) -> PluginPass:
    return PluginPass(item, type(item), f"pass {item.name}")


def _of_rule(rule: Rule) -> PluginPass:
    """A pass of one rule, so that errors and reports name it."""
    if not isinstance(rule.pattern, P) or not callable(rule.check) or not callable(rule.rewrite):
        message = f"rule {rule.name!r} needs a pattern P(...) and two functions, check and rewrite"
        raise PluginError(Diagnostic("plugin-class", message))
    name = f"rule {rule.name}"

    def check(found: Match) -> str | Refusal | None:
        reason = guarded(lambda: rule.check(found), rule.check, f"check of {name}")
        if reason is not None and not isinstance(reason, str | Refusal):
            message = f"check of {name} gives {reason!r}: it takes a reason against, or None"
            raise PluginError(Diagnostic("plugin-rule", message, defined_at(rule.check)))
        return reason

    def rewrite(builder: Builder, found: Match) -> Sequence[Value]:
        made = guarded(lambda: rule.rewrite(builder, found), rule.rewrite, f"rewrite of {name}")
        fault = replacement_fault(made, found.root, found.module)
        if fault:
            message = f"rewrite of {name} {fault} (node {found.root.place})"
            raise PluginError(Diagnostic("plugin-rule", message, defined_at(rule.rewrite)))
        return (made,) if isinstance(made, Value) else made

    checked = replace(rule, check=check, rewrite=rewrite)
    return PluginPass(_OneRule(name, (checked,)), _author(rule), name)


class _OneRule(RulePass):
    """Says so as well where its rule was never applied."""

    def run(self, module: Module, record: Record) -> bool:
        record.did(self.rules[0].name, 0)
        return super().run(module, record)


def _author(rule: Rule) -> Callable[..., Any]:
    """A function of the rule that stands in the user's own file."""
    return rule.rewrite if is_plugin_op(rule.rewrite) else rule.check


def replacement_fault(made: object, node: Node, module: Module) -> str:
    """What is wrong with what a user's function gave in place of ``node``."""
    values = (made,) if isinstance(made, Value) else made
    if not isinstance(values, list | tuple) or not all(isinstance(value, Value) for value in values):
        return f"gives {made!r} instead of a value for each output"
    if len(values) != len(node.outputs):
        return f"gives {len(values)} values for {len(node.outputs)} outputs"
    for value, output in zip(values, node.outputs, strict=True):
        if not compatible(value.type, output.type, module.symbols):
            return f"gives {value.type} in place of {output.type}"
    return ""
