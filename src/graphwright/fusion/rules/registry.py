"""The registry of fusion rules: rules of users, which are tried first, and built-in rules."""

from __future__ import annotations

from typing import Any, Final

from graphwright.errors import Diagnostic, PluginError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules import BUILT_IN
from graphwright.fusion.rules.base import Check, FusionRule, KernelRule, ReplaceRule
from graphwright.ir.op.plugin_ops import defined_at, guarded, plugin_of
from graphwright.ir.refusal import Refusal
from graphwright.records import replace

_REGISTERED: Final[dict[str, FusionRule]] = {}
"""The rules of users by name, as they were registered."""
_GUARDED: Final[dict[str, FusionRule]] = {}
"""The same rules, wrapped: if a function of a rule raises an exception, the error names the rule."""


def register_fusion_rules(*rules: FusionRule) -> None:
    """Registers ``rules`` for later compilations. They are tried in the order of registration, before the
    built-in rules.

    Raises PluginError for objects that are not a FusionRule, and for names that are invalid or already used.
    """
    for rule in rules:
        _require_sound(rule)
        known = _REGISTERED.get(rule.name)
        if known is not None and plugin_of(known.pattern) != plugin_of(rule.pattern):
            message = f"{plugin_of(known.pattern)} already has a fusion rule {rule.name!r}"
            raise _clash(message, rule)
        if any(rule.name == built_in.name for built_in in BUILT_IN):
            raise _clash(f"graphwright itself has a fusion rule {rule.name!r}", rule)
        _REGISTERED[rule.name], _GUARDED[rule.name] = rule, _guarded(rule)


def registered_fusion_rules() -> list[FusionRule]:
    """The rules of users, as they were registered."""
    return list(_REGISTERED.values())


def all_rules() -> tuple[FusionRule | KernelRule | ReplaceRule, ...]:
    """The rules of users, then the built-in ones."""
    return (*_GUARDED.values(), *BUILT_IN)


def _require_sound(rule: object) -> None:
    if not isinstance(rule, FusionRule):
        message = f"{type(rule).__name__} is not a FusionRule"
        raise PluginError(Diagnostic("plugin-class", message))
    functions = (rule.pattern, rule.check, *rule.constraints)
    if not all(map(callable, functions)):
        message = f"fusion rule {rule.name!r} needs functions as pattern, check and constraints"
        raise PluginError(Diagnostic("plugin-class", message))
    if not rule.name.isidentifier() or rule.name in ("all", "none"):
        message = f"{rule.name!r} is not a valid name of a fusion rule"
        hint = "use letters, digits and _; the names all and none are reserved"
        raise PluginError(Diagnostic("plugin-class", message, defined_at(rule.pattern), hint))


def _clash(message: str, rule: FusionRule) -> PluginError:
    return PluginError(Diagnostic("plugin-clash", message, defined_at(rule.pattern), "give it another name"))


def _guarded(rule: FusionRule) -> FusionRule:
    def pattern(candidate: Candidate) -> bool:
        doing = f"pattern of fusion rule {rule.name}"
        return bool(guarded(lambda: rule.pattern(candidate), rule.pattern, doing))

    constraints = tuple(_guarded_check(rule, each) for each in rule.constraints)
    return replace(rule, pattern=pattern, check=_guarded_check(rule, rule.check), constraints=constraints)


def _guarded_check(rule: FusionRule, check: Check) -> Check:
    def ask(candidate: Candidate) -> Refusal | str | None:
        doing = f"check of fusion rule {rule.name}"
        reason: Any = guarded(lambda: check(candidate), check, doing)
        if reason is not None and not isinstance(reason, str | Refusal):
            message = f"{doing} returned {reason!r}: it must return a reason against the merge, or None"
            raise PluginError(Diagnostic("plugin-rule", message, defined_at(check)))
        return reason

    return ask
