"""Models compiled with ``--tune``: every alternative computes correct results, and compilation follows the
record.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import graphwright as gw
from benchmarks.fusion.chains import Layer, chain
from graphwright.compiler.tuning import STAGE, synthetic_array
from graphwright.config import Options
from graphwright.cost.choices import Choice
from graphwright.errors import ModelError
from graphwright.frontends.onnx import load, open_model
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Kind, Verdict
from graphwright.ir.refusal import Code
from graphwright.option_files.tuning_records import Measured, Record, Times, parsed
from graphwright.tuning import store
from tests.onnx_models import model_proto
from tests.tools.support import graphwright
from tests.tuning.drafts import draft, image_chain

ROOT = Path(__file__).parents[2]


def rows(*sizes: Any) -> onnx.ModelProto:
    """Softmax(gelu-like(x @ w)) of ``sizes``."""
    weights = np.random.default_rng(0).standard_normal((sizes[-1], 6)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Tanh", ["h"], ["t"], name="tanh"),
        helper.make_node("Mul", ["h", "t"], ["m"], name="gate"),
        helper.make_node("Softmax", ["m"], ["y"], name="softmax"),
    ]
    return model_proto(nodes, {"x": list(sizes)}, {"y": None}, {"w": weights})


def long_rows() -> onnx.ModelProto:
    """Softmax of rows that no cache of the second level holds."""
    return model_proto([helper.make_node("Softmax", ["x"], ["y"])], {"x": [2, 300_001]}, {"y": None})


def file_of(model: gw.Model) -> bytes:
    held = io.BytesIO()
    model.save(held)
    return held.getvalue()


def taking(choices: Sequence[Choice], turn: int) -> dict[str, Measured]:
    """A record that takes the alternative of that number of each workload."""
    taken = {each.workload: each.alternatives[turn % len(each.alternatives)] for each in choices}
    return {workload: Measured(name, {}, name) for workload, name in taken.items()}


@pytest.mark.parametrize(
    "model", (image_chain(), rows(2, 5, 7), long_rows()), ids=("images", "rows", "long rows")
)
def test_every_way_gives_the_right_result(model: onnx.ModelProto) -> None:
    compiled = draft(model)
    first = compiled.compiled({})
    assert first.choices and all(choice.taken == choice.alternatives[0] for choice in first.choices)
    x = np.random.default_rng(1).standard_normal(first.timed.arrays[0].shape).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    seen: set[tuple[str, str]] = set()
    for turn in range(max(len(choice.alternatives) for choice in first.choices)):
        trial = compiled.compiled(taking(first.choices, turn))
        seen |= {(choice.workload, choice.taken) for choice in trial.choices}
        (result,) = trial.timed.executor.run([x], None, 1)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert {(c.workload, name) for c in first.choices[:1] for name in c.alternatives} <= seen


def test_the_alternatives_of_convolutions_are_algorithms_bands_and_merges() -> None:
    found = {name for each in draft(image_chain()).compiled({}).choices for name in each.alternatives}
    assert {"direct", "winograd 2x2", "winograd 4x4 in half blocks", "no bands", "two kernels"} <= found
    strict = draft(image_chain(), numerics="strict").compiled({}).choices
    assert not any("winograd" in name for choice in strict for name in choice.alternatives)


def test_merges_predicted_to_be_slower_are_alternatives_too() -> None:
    alternatives = {choice.alternatives for choice in draft(long_rows()).compiled({}).choices}
    assert ("two kernels", "one kernel") in alternatives


def test_workloads_are_known_by_content_alone() -> None:
    """Names of nodes do not count, but sizes do."""
    model, renamed = rows(2, 5, 7), rows(2, 5, 7)
    for node in renamed.graph.node:
        node.name = f"other_{node.name}"
    known = [{c.workload for c in draft(m).compiled({}).choices} for m in (model, renamed, rows(2, 6, 7))]
    assert known[0] == known[1] and known[0].isdisjoint(known[2])


def test_workloads_are_known_in_another_process() -> None:
    script = (
        "from tests.tuning.drafts import draft, image_chain\n"
        "print(*sorted(c.workload for c in draft(image_chain()).compiled({}).choices))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == sorted(c.workload for c in draft(image_chain()).compiled({}).choices)


def test_a_second_compilation_measures_nothing_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"cache_dir": tmp_path / "cache"}
    plain = gw.compile(image_chain(), options=here)
    assert plain.package.options["tuning"] == "none" and not (tmp_path / "cache" / "tuning").exists()
    said: list[str] = []

    def observe(name: str, product: object) -> None:
        if name == STAGE:
            said.append(str(product))

    for _ in range(4):  # a busy machine may not measure everything in one go
        first = gw.compile(image_chain(), tune=30, options=here, observe=observe)
        if said[-1].endswith(", 0 skipped for lack of time"):
            break
    assert any(text.startswith("measuring") for text in said)
    record = parsed((tmp_path / "cache" / "tuning" / store.FILE).read_text())
    assert record.workloads
    assert len(first.package.options["tuning"]) == 32
    asked = re.search(r"measured: (\d+) workloads", first.report())
    assert asked is not None
    assert 0 < int(asked[1]) <= len(record.workloads), "a change may leave nothing to ask of other workloads"

    monkeypatch.setattr("graphwright.tuning.search.compare", pytest.fail)
    assert file_of(gw.compile(image_chain(), tune=30, options=here)) == file_of(first)
    assert file_of(gw.compile(image_chain(), options=here)) == file_of(first), "the record counts"
    assert file_of(gw.compile(image_chain(), options={**here, "tuning": "none"})) == file_of(plain)
    x = np.random.default_rng(1).standard_normal((1, 16, 24, 20)).astype(np.float32)
    (expected,) = ReferenceEvaluator(image_chain()).run(None, {"x": x})
    np.testing.assert_allclose(first(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_record_of_one_model_changes_no_other(tmp_path: Path) -> None:
    here = {"cache_dir": tmp_path / "cache"}
    plain = file_of(gw.compile(rows(3, 4), options=here))
    store.keep({f"{1:032x}": Measured("a", {"b": None}, "a")}, Options(**here))
    assert file_of(gw.compile(rows(3, 4), options=here)) == plain


def test_a_record_in_a_file_decides(tmp_path: Path) -> None:
    model = chain((Layer(8),), 4, (1, 5, 6))
    merges = [c for c in draft(model).compiled({}).choices if c.alternatives == ("one kernel", "two kernels")]
    slower = Measured("one kernel", {"two kernels": Times(0.8, 0.7, 0.9)}, "two kernels")
    file = tmp_path / "record.json"
    file.write_text(Record("any", "any", {merges[0].workload: slower}).text())
    plain, apart = (gw.compile(model, options={"tuning": text}) for text in ("none", str(file)))
    assert len(apart.package.options["tuning"]) == 32
    assert "two kernels for one kernel, 0.800 of its time (0.700 to 0.900)" in apart.report()
    assert "measured: 1 workload with 2 alternatives; changed: 1" in apart.report()
    decided = [d for d in decode_decisions(apart.entry.decisions) if d.code is Code.MEASURED]
    assert [d.measured for d in decided] == [pytest.approx(-np.log(0.8))]
    apart.save(tmp_path / "apart.om")
    said = graphwright("explain", tmp_path / "apart.om", "--why-not", *decided[0].edit.nodes).stdout
    assert "[FUSE_MEASURED]" in said and "measured, it would take 1.25 of the time" in said
    x = np.random.default_rng(1).standard_normal((1, 4, 5, 6)).astype(np.float32)
    np.testing.assert_allclose(apart(x)[0], plain(x)[0], rtol=1e-6)


def test_decisions_about_bands_have_their_measured_time(tmp_path: Path) -> None:
    model = chain((Layer(32), Layer(0, 3)), 16, (1, 48, 40))
    (choice,) = (c for c in draft(model).compiled({}).choices if "no bands" in c.alternatives)
    assert choice.alternatives[0] == "no bands"
    for taken, time in ((choice.alternatives[1], 0.5), ("no bands", 1.25)):
        known = Measured("no bands", {choice.alternatives[1]: Times(time, time, time)}, taken)
        record = Record("any", "any", {choice.workload: known}).text()
        compiled = gw.compile(model, options={"tuning": record})
        (decided,) = (d for d in decode_decisions(compiled.entry.decisions) if d.edit.kind is Kind.BAND)
        assert decided.measured == pytest.approx(np.log(time))
        assert (decided.verdict is Verdict.TAKEN) == (taken != "no bands")


def test_unknown_names_of_sizes_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sizes = {"cache_dir": tmp_path / "cache", "tune_sizes": "Row=3,Rows=4"}
    gw.compile(rows("Rows", 4), tune=1, options=sizes)
    assert "there is no dynamic dimension 'Row': did you mean 'Rows'? the dimensions are Rows" in caplog.text


def test_dynamic_sizes_have_to_be_given(tmp_path: Path) -> None:
    here = {"cache_dir": tmp_path / "cache"}
    with pytest.raises(
        ModelError, match=r"(?s)input 'x' has type f32\[N, M, 4\].*tune_sizes='M=\.\.\.,N=\.\.\.'"
    ):
        gw.compile(rows("N", "M", 4), tune=5, options=here)
    tuned = gw.compile(rows("N", "M", 4), tune=20, options={**here, "tune_sizes": "N=3,M=16"})
    assert "measured: " in tuned.report()
    for n in (1, 3, 8):
        x = np.random.default_rng(n).standard_normal((n, 5, 4)).astype(np.float32)
        (expected,) = ReferenceEvaluator(rows("N", "M", 4)).run(None, {"x": x})
        np.testing.assert_allclose(tuned(x)[0], expected, rtol=1e-4, atol=1e-5)


def test_subgraphs_of_sizes_that_data_decide_are_left_as_they_are(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Softmax", ["numbers"], ["y"]),
    ]
    model = model_proto(nodes, {"x": [3, 4]}, {"y": None})
    tuned = gw.compile(model, tune=5, options={"cache_dir": tmp_path / "cache"})
    fed = np.eye(3, 4, dtype=np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": fed})
    np.testing.assert_allclose(tuned(fed)[0], expected, rtol=1e-6)


def test_an_isa_that_this_cpu_lacks_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("graphwright.log._WARNED", set())
    monkeypatch.setattr("graphwright.compiler.tuning.usable_isas", lambda: ())
    made = gw.compile(rows(3, 4), tune=5, options={"cache_dir": tmp_path / "cache"})
    assert made.package.options["tuning"] == "none"
    assert "no tuning for" in caplog.text


def test_made_up_inputs() -> None:
    module = load(open_model(rows("N", 3, 4), None))
    array = synthetic_array(module.main.inputs[0].type, {"N": 2}, 0)
    assert array.shape == (2, 3, 4) and array.dtype == np.float32 and len(np.unique(array)) == 24


def test_the_command_writes_a_tuning_record(tmp_path: Path) -> None:
    file = tmp_path / "rows.onnx"
    onnx.save(rows(3, 4), file)
    cache = "--cache-dir", tmp_path / "cache"
    done = graphwright("compile", file, "-o", tmp_path / "a.om", "--tune", 20, *cache)
    assert done.exit_code == 0, done.output
    record = tmp_path / "cache" / "tuning" / store.FILE
    assert json.loads(record.read_text())["workloads"]
    count = len(json.loads(record.read_text())["workloads"])
    assert f"workloads  {count}\n" in graphwright("cache", "stats", *cache).stdout
    again = graphwright("compile", file, "-o", tmp_path / "b.om", "--tuning", record, "-q")
    assert again.exit_code == 0 and not again.output
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()
    assert graphwright("cache", "clear", *cache).exit_code == 0 and not record.exists()
    refused = graphwright("compile", file, "-o", tmp_path / "c.om", "--tune", "-1")
    assert refused.exit_code == 2 and "--tune" in refused.output


def test_gears_are_measured_at_their_own_sizes(tmp_path: Path) -> None:
    """Shapes between gears, whose dimensions are dynamic, are not measured."""
    gears = gw.Gears(shapes={"x": [(2, 4), (8, 4)]}, between="dynamic")
    tuned = gw.compile(rows("N", 4), gears=gears, tune=20, options={"cache_dir": tmp_path / "cache"})
    assert "measured: " in tuned.report()
    for n in (1, 2, 5, 8, 11):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        (expected,) = ReferenceEvaluator(rows("N", 4)).run(None, {"x": x})
        np.testing.assert_allclose(tuned(x)[0], expected, rtol=1e-4, atol=1e-5)


def test_each_run_begins_with_the_same_states(tmp_path: Path) -> None:
    b = gw.GraphBuilder()
    x, state = b.input("x", np.float32, (64, 64)), b.state("s", np.float32, (64, 64))
    following = b.mul(b.add(state, x), b.sigmoid(x))
    b.update(state, following)
    b.output("y", b.tanh(following))
    made = b.compile(options=gw.CompileOptions(tune=10, cache_dir=tmp_path / "cache"))
    fed = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    expected = np.zeros_like(fed)
    for _ in range(3):
        expected = (expected + fed) / (1 + np.exp(-fed))
        np.testing.assert_allclose(made(fed)[0], np.tanh(expected), rtol=1e-5, atol=1e-6)
