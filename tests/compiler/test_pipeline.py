"""The list of stages: the names that observers receive, golden tests and the printed list agree with it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import graphwright as gw
from graphwright.compiler.pipeline import PARTITION, STAGES
from graphwright.ir.graph import Module
from graphwright.passes.after_stage import AfterStage
from graphwright.tools.reports.pipeline_table import pass_names

OPTIONS = gw.CompileOptions(device="cpu", threads=1)
PASSES = [name for stage in STAGES for name in pass_names(stage)]


def test_a_compilation_goes_through_the_stages_in_their_order() -> None:
    seen: list[str] = []
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 8))
    b.output("y", b.softmax(b.matmul(x, np.ones((8, 4), np.float32))))
    gw.compile(b.build(), options=OPTIONS, observe=lambda name, product: seen.append(name))
    names = [stage.name for stage in STAGES]
    stage_of = {"import": "import", **{name: stage.name for stage in STAGES for name in pass_names(stage)}}
    assert set(seen) <= stage_of.keys() | set(names)
    last = [stage_of.get(name, name) for name in seen[seen.index("fuse") :]]
    assert list(dict.fromkeys(last)) == names[names.index("fuse") :]


def test_the_command_prints_all_stages() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "graphwright", "--stages"], capture_output=True, text=True, check=True
    )
    heads = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == [stage.name for stage in STAGES]
    assert all(f"{name}" in done.stdout for name in PASSES)


def test_the_ends_of_stages_of_passes_are_seen_by_an_observer() -> None:
    """Stages without passes report results of their own, under their names."""
    seen: list[tuple[str, type]] = []
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 8))
    b.output("y", b.relu(x))
    gw.compile(b.build(), options=OPTIONS, observe=lambda name, product: seen.append((name, type(product))))
    ends = [name for name, kind in seen if kind is AfterStage]
    stages = [stage.name for stage in STAGES if stage.has_passes and stage.name != PARTITION]
    assert ends[ends.index("simplify") :] == stages[stages.index("simplify") :]
    assert [name for name, _ in seen[-5:]] == ["select", "bands", "lower", "emit", "kernels"]
    assert not {"select", "bands", "lower", "emit", "kernels"} & set(ends)


def test_each_pass_of_the_list_is_seen_by_an_observer() -> None:
    """``--print-after`` accepts the names in the list, and no other passes run."""
    seen: dict[str, type] = {}
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 8))
    b.output("y", b.relu(x))
    gw.compile(b.build(), options=OPTIONS, observe=lambda name, product: seen.setdefault(name, type(product)))
    on_request = {"bound_sizes", "quantize_weights", "lower_precision"}
    assert set(PASSES) - on_request <= {name for name, kind in seen.items() if kind is Module}
