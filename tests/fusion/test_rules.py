"""Fusion rules: merges of each built-in rule, options, optimization levels, users' rules, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import OptionError, PluginError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules import BUILT_IN, registry
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.registry import register_fusion_rules
from graphwright.fusion.rules.switches import rule_set
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.refusal import Code
from graphwright.ops.core.unary import Neg
from graphwright.passes.traversal import nodes_of
from tests.random_graphs.check import check
from tests.random_graphs.generate import case

from .support import decided, module_of

MODEL = (
    "%x: f32[8, 16], %w: f32[16, 16]",
    '%m = MatMul(%x, %w): f32[8, 16] from "matmul"',
    '%r = Relu(%m): f32[8, 16] from "relu"',
    '%a = Abs(%x): f32[8, 16] from "abs"',
    '%e = Exp(%a): f32[8, 16] from "exp"',
    '%v = Reshape[shape=(128,)](%e): f32[128] from "reshape"',
    '%n = Neg(%v): f32[128] from "neg"',
    '%q = Abs(%w): f32[16, 16] from "square"',
    '%s = ReduceSum[axes=(1,)](%q): f32[16, 1] from "sum"',
    '%d = Div(%q, %s): f32[16, 16] from "div"',
    "constant #g: f32[16, 16] = splat 1.0",
    "constant #u: f32[16, 16] = splat 2.0",
    "%wg = Constant[value=#g]: f32[16, 16]",
    "%wu = Constant[value=#u]: f32[16, 16]",
    '%g = MatMul(%x, %wg): f32[8, 16] from "gate"',
    '%u = MatMul(%x, %wu): f32[8, 16] from "up"',
    '%y = Mul(%g, %u): f32[8, 16] from "gated"',
    "return %r, %n, %d, %y",
)
RULE_OF = {
    ("matmul", "relu"): "epilogue",
    ("abs", "exp"): "pointwise",
    ("exp", "reshape"): "view",
    ("reshape", "neg"): "pointwise",
    ("square", "sum"): "reduction_input",
    ("sum", "div"): "row",
    ("square", "div"): "row",
    ("up", "gated"): "epilogue",
    ("gate", "gated"): "siblings",
}
NAMES = {rule.name for rule in BUILT_IN}


@pytest.fixture(autouse=True)
def own_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(registry, "_GUARDED", {})
    yield


def options(**given: str | int) -> Options:
    return Options.from_environment(**given)


def test_each_built_in_rule_merges_what_it_is_about() -> None:
    found = decided(module_of(*MODEL))
    assert {nodes: each.why for nodes, each in found.items()} == {n: f"rule {r}" for n, r in RULE_OF.items()}
    assert {*RULE_OF.values(), "attention", "resize", "scale", "split", "table", "bands"} == NAMES


OFF = {
    "epilogue": {("matmul", "relu"), ("up", "gated"), ("gate", "gated")},
    "siblings": {("gate", "gated")},
    "pointwise": {("abs", "exp"), ("reshape", "neg")},
    "view": {("exp", "reshape"), ("reshape", "neg")},
    "reduction_input": {("square", "sum"), ("square", "div")},
    "row": {("sum", "div"), ("square", "div")},
}


@pytest.mark.parametrize("name", OFF)
def test_a_rule_that_is_off_merges_nothing(name: str) -> None:
    found = decided(module_of(*MODEL), rule_set(options(fusion_rules=f"-{name}")))
    off = {nodes for nodes, each in found.items() if each.code is Code.RULE_OFF}
    assert off == OFF[name]


def test_none_leaves_each_node_alone() -> None:
    module = module_of(*MODEL)
    found = decided(module, rule_set(options(fusion_rules="none")))
    assert {each.code for each in found.values()} == {Code.RULE_OFF, Code.CYCLE}
    assert all(len(node.regions[0]) == 1 for _, node, _ in nodes_of(module, Fused))
    assert rule_set(options(fusion_rules="none")).rewrites() == ()
    assert len(rule_set(options()).rewrites()) == 2


@pytest.mark.parametrize(
    ("level", "merged"),
    [(0, set()), (1, set()), (2, {*RULE_OF.values()} - {"epilogue", "siblings"}), (3, {*RULE_OF.values()})],
)
def test_optimization_levels_select_rules(level: int, merged: set[str]) -> None:
    found = decided(module_of(*MODEL), rule_set(options(opt_level=level)))
    assert {each.why for each in found.values() if each.code is Code.MERGED} == {f"rule {r}" for r in merged}


SWITCHES = [{"fusion_rules": "none"}, {"opt_level": 0}, {"opt_level": 1}, {"opt_level": 2}]


@pytest.mark.parametrize("given", SWITCHES, ids=lambda given: "-".join(map(str, *given.items())))
@pytest.mark.parametrize("seed", range(2000, 2008))
def test_random_models_give_the_same_without_fusion(
    seed: int, given: dict[str, str | int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "kernels"
    check(case(Random(seed), steps=14), Options.from_environment(cache_dir=folder, verify=True, **given))


# ---- what users give


def switched(text: str) -> list[str]:
    rules = rule_set(options(fusion_rules=text))
    return [rule.name for rule in rules.rules if rule.name not in rules.off]


def test_lists_and_files(tmp_path: Path) -> None:
    assert switched("row, view") == ["view", "row"]
    assert switched("all,-row") == switched("-row") == [r.name for r in BUILT_IN if r.name != "row"]
    file = tmp_path / "rules.toml"
    file.write_text('rules = ["row", "view", "pointwise"]\noff = ["view"]\n')
    assert switched(str(file)) == ["row", "pointwise"]
    file.write_text('off = ["view"]\n')
    assert switched(str(file)) == switched("-view")
    file.write_text("rules = []\n")
    assert switched(str(file)) == []
    file.write_text('off = ["view"]\n', encoding="utf-8-sig")  # with a byte order mark
    assert switched(str(file)) == switched("-view")


def test_the_content_of_a_rule_file_is_part_of_the_cache_key(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('off = ["view"]\n')
    given = options(fusion_rules=str(file), opt_level=2).key()
    assert (given["fusion_rules"], given["opt_level"]) == ("all,-view", "2")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rule = 1", "there is no key 'rule': did you mean 'rules'? keys: rules, off"),
        ("rules = 1\noff = 2", 'rules must be "all", "none" or a list of names; off must be a list of names'),
        ("rules = [", "is not TOML"),
        ("rules = [1]", 'rules must be "all", "none" or a list of names'),
        ("x = 1\ny = 2", "there is no key 'x': keys: rules, off; there is no key 'y'"),
    ],
)
def test_a_bad_file_is_one_error(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(OptionError) as error:
        options(fusion_rules=str(tmp_path / "bad.toml"))
    assert found in str(error.value) and len(error.value.diagnostics) == 1


def test_missing_and_binary_rule_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        options(fusion_rules=str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="is not TOML"):
        options(fusion_rules=str(tmp_path / "bytes.toml"))
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    with pytest.raises(OptionError, match="has more than 1 MiB"):
        options(fusion_rules=str(tmp_path / "endless.toml"))


def test_unknown_rules_are_listed_at_once() -> None:
    with pytest.raises(OptionError) as error:
        rule_set(options(fusion_rules="epilog,row,vieuw"))
    first, second = error.value.diagnostics
    assert first.message == "there is no fusion rule 'epilog'"
    assert first.hint.startswith(
        "did you mean 'epilogue'? fusion rules: attention, resize, scale, split, table, siblings, epilogue,"
    )
    assert second.message == "there is no fusion rule 'vieuw'"


@pytest.mark.parametrize("given", [{"fusion_rules": ""}, {"fusion_rules": "a b"}, {"opt_level": 4}])
def test_invalid_rules_and_levels_are_rejected(given: dict[str, str | int]) -> None:
    with pytest.raises(OptionError, match="must be"):
        options(**given)


# ---- users' own rules


def reads_neg(candidate: Candidate) -> bool:
    return any(isinstance(node.op, Neg) for node in candidate.consumer.nodes)


def test_a_users_rule_decides_before_built_in_ones() -> None:
    register_fusion_rules(FusionRule("neg_apart", "keeps Neg apart", reads_neg, lambda c: "it is a test"))
    found = decided(module_of(*MODEL), rule_set(options()))["reshape", "neg"]
    assert (found.code, found.why) == (Code.RULE, "rule neg_apart: it is a test")
    assert decided(module_of(*MODEL), rule_set(options(fusion_rules="-neg_apart")))[
        "reshape", "neg"
    ].code is (Code.RULE_OFF)


def test_a_users_rule_may_allow_what_built_in_constraints_reject() -> None:
    wide = (
        "%x: f32[2, 1000000]",
        '%a = ReduceSum[axes=(1,)](%x): f32[2, 1] from "a"',
        '%b = Sub(%x, %a): f32[2, 1000000] from "b"',
        "return %b",
    )
    assert decided(module_of(*wide))["a", "b"].code is Code.ROW_BEYOND_CACHE
    register_fusion_rules(FusionRule("wide_rows", "any row", lambda c: c.has_reduction, constraints=()))
    assert decided(module_of(*wide), rule_set(options()))["a", "b"].why == "rule wide_rows"


def test_no_rule_overrules_legality() -> None:
    register_fusion_rules(FusionRule("anything", "merges anything", lambda c: True, constraints=()))
    module = module_of(
        "%x: f32[8, 16], %w: f32[16, 16]",
        '%a = MatMul(%x, %w): f32[8, 16] from "a"',
        '%b = ReduceSum[axes=(1,)](%a): f32[8, 1] from "b"',
        "return %b",
    )
    assert decided(module, rule_set(options()))["a", "b"].code is Code.EPILOGUE_REDUCTION


def test_faults_of_rules_name_them() -> None:
    with pytest.raises(PluginError, match="int is not a FusionRule"):
        register_fusion_rules(1)  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="graphwright itself has a fusion rule"):
        register_fusion_rules(FusionRule("row", "", reads_neg))
    with pytest.raises(PluginError, match="is not a valid name of a fusion rule"):
        register_fusion_rules(FusionRule("a b", "", reads_neg))
    with pytest.raises(PluginError, match="needs functions"):
        register_fusion_rules(FusionRule("mine", "", 1))  # type: ignore[arg-type]
    register_fusion_rules(FusionRule("divides", "", lambda c: 1 / 0 > 0))
    with pytest.raises(PluginError, match="pattern of fusion rule divides raised ZeroDivisionError"):
        decided(module_of(*MODEL), rule_set(options()))
    register_fusion_rules(FusionRule("divides", "", reads_neg, lambda c: 1))  # type: ignore[arg-type, return-value]
    with pytest.raises(PluginError, match="check of fusion rule divides returned 1"):
        decided(module_of(*MODEL), rule_set(options()))


def test_compile_takes_the_switches() -> None:
    with pytest.raises(OptionError, match="there is no fusion rule 'rows'"):
        gw.compile(module_of(*MODEL), options={"fusion_rules": "rows"})
