"""Edits of partitions: their enumeration, their effects, and equal results before and after an edit."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fusion.edits import Edit, Stage, edits_of, partition_of, selected_edits
from benchmarks.fusion.measure import ROTATIONS, buffer_sets, runner
from benchmarks.fusion.paired import Estimate
from benchmarks.fusion.patterns import PATTERNS
from benchmarks.fusion.results import Case, Measured, read, write
from graphwright.config import Options

OPTIONS = Options(threads=1, isa="v3")


def stage(name: str) -> Stage:
    pattern = PATTERNS[name]
    return Stage.of(pattern.module(pattern.sizes[0]), OPTIONS)


def test_patterns_are_many_and_of_every_kind() -> None:
    anchors = Counter(pattern.anchor for pattern in PATTERNS.values())
    assert len(PATTERNS) >= 60
    assert anchors.keys() == {"none", "gemm", "conv1x1", "direct", "winograd", "depthwise"}


def test_an_edit_separates_its_two_nodes() -> None:
    here = stage("gemm_gelu")
    edits = {edit.name: edit.groups() for edit in edits_of(here)}
    product, bias, gelu = 1, 3, 4
    assert edits["MatMul-Add"] == ([{product}, {bias, gelu}], [{product, bias, gelu}])
    assert edits["Add-Gelu"] == ([{product, bias}, {gelu}], [{product, bias, gelu}])


def test_edits_of_one_partition_are_one() -> None:
    for name in ("rows_scale_mask_softmax", "chain_two_readers", "conv1x1_costly"):
        here = stage(name)
        merged = partition_of(here.merged())
        apart = [partition_of(here.apart(edit.edge)) for edit in edits_of(here)]
        assert len(set(apart)) == len(apart)
        assert merged not in apart


def test_selected_edits_keep_whole_ops_apart() -> None:
    assert [edit.name for edit in selected_edits(stage("rows_layer_norm_gelu"))] == ["Add-Gelu"]
    assert len(selected_edits(stage("chain_long_cheap"))) == 3


@pytest.mark.parametrize(
    "name", ["gemm_gate", "rows_residual_layer_norm", "depthwise_silu", "floats_to_bytes"]
)
def test_both_partitions_give_the_same_results(name: str) -> None:
    for edit in selected_edits(stage(name))[:1]:
        before, after = edit.compiled()
        assert len(before.executor.task_graph.tasks) > len(after.executor.task_graph.tasks)
        (sets,) = buffer_sets(before.program, 0)
        results = []
        for side in (before, after):
            runner(side, [sets], 1)(1)
            results.append([array.copy() for array in sets[1].values()])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_control_compares_a_partition_with_itself() -> None:
    edit = selected_edits(stage("chain_silu"))[0]
    before, after = edit.control()
    assert [str(t) for t in before.executor.task_graph.tasks] == [
        str(t) for t in after.executor.task_graph.tasks
    ]


def test_arrays_rotate_beyond_the_cache() -> None:
    before, _ = Edit(stage("chain_silu"), (0, 1)).compiled()
    sets = buffer_sets(before.program, ROTATIONS["l2"])
    assert sum(a.nbytes for side in sets for arrays in side for a in arrays.values()) >= ROTATIONS["l2"]
    addresses = {a.ctypes.data for side in sets for arrays in side for a in arrays.values()}
    assert len(addresses) == 2 * len(sets)
    assert {address % 64 for address in addresses} == {0}


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    case = Case("chain_silu", (16, 256), (0, 1), "Sigmoid-Mul", "v4", 1, "hot")
    made = [
        Measured(case, Estimate(-0.25, -0.5, -0.125, 9, 2), 1900),
        Measured(
            Case("a", (2,), (3, 4), "A-B", "v3", 2, "l3", control=True),
            Estimate(0, -math.inf, math.inf, 1),
            7,
        ),
    ]
    write(made, tmp_path / "edits.json")
    assert sorted(map(str, read(tmp_path / "edits.json"))) == sorted(map(str, made))
    assert read(tmp_path / "none.json") == []
    assert (tmp_path / "edits.json").read_text().count("\n") == 4
