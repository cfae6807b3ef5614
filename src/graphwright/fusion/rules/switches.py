"""Selects the enabled fusion rules by the options ``fusion_rules`` and ``opt_level``."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.config import Options
from graphwright.errors import Collector, OptionError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import REPLACE, FusionRule, KernelRule, ReplaceRule
from graphwright.fusion.rules.registry import all_rules
from graphwright.ir.refusal import Code, Refusal
from graphwright.passes.rule_pass import RulePass
from graphwright.records import dataclass, field
from graphwright.support.message_text import did_you_mean, listed


@dataclass(frozen=True, eq=False)
class RuleSet:
    """All rules in the order in which they are tried, and the reason why a rule is disabled, by its name."""

    rules: tuple[FusionRule | KernelRule | ReplaceRule, ...] = field(default_factory=all_rules)
    off: Mapping[str, str] = field(default_factory=dict)

    def decide(self, candidate: Candidate) -> FusionRule | Refusal:
        """The rule that merges ``candidate``, which is legal, or the refusal. The first rule that matches
        decides; if it is disabled, the candidate is not merged.
        """
        for rule in self.rules:
            if not isinstance(rule, FusionRule) or not rule.pattern(candidate):
                continue
            if rule.name in self.off:
                return Refusal(Code.RULE_OFF, f"rule {rule.name} is off: {self.off[rule.name]}")
            reason = rule.reasons_against(candidate)
            if reason is None:
                return rule
            return (
                reason if isinstance(reason, Refusal) else Refusal(Code.RULE, f"rule {rule.name}: {reason}")
            )
        return Refusal(Code.NO_RULE, "no fusion rule matches these nodes")

    def rewrites(self, stage: str = REPLACE) -> tuple[RulePass, ...]:
        """The passes of enabled rules that replace nodes in ``stage``."""
        return tuple(
            rule.rewrites
            for rule in self.rules
            if isinstance(rule, ReplaceRule) and rule.stage == stage and rule.name not in self.off
        )


def rule_set(options: Options) -> RuleSet:
    """The rules that ``options`` enable. Raises OptionError, which lists every unknown name."""
    rules = all_rules()
    wanted = _wanted(options.fusion_rules, [rule.name for rule in rules])
    off = {}
    for rule in rules:
        if rule.name not in wanted:
            off[rule.name] = "the option fusion_rules leaves it out"
        elif rule.level > options.opt_level:
            off[rule.name] = f"it needs opt_level {rule.level} or more"
    return RuleSet(rules, off)


def _wanted(text: str, known: list[str]) -> set[str]:
    """The names that ``text`` enables: all or none, then single names; a minus sign disables a name."""
    faults = Collector(OptionError)
    wanted: set[str] = set()
    for word in text.split(","):
        name = word.removeprefix("-")
        if word == "all":
            wanted |= {*known}
        elif word == "none":
            wanted.clear()
        elif name not in known:
            hint = f"{did_you_mean([name], known)}fusion rules: {listed(known)}"
            faults.add("fusion-rule", f"there is no fusion rule {name!r}", "fusion_rules", hint)
        elif word.startswith("-"):
            wanted.discard(name)
        else:
            wanted.add(name)
    faults.raise_if_any()
    return wanted
