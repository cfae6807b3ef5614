"""Profiles of sessions have the events and fields that scripts read."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import onnxruntime as theirs

import graphwright.onnxruntime as ours
from tests.onnxruntime.support import FEED, ROWS, plain, sums


def test_a_session_writes_a_profile(tmp_path: Path, pair: dict[ModuleType, Any]) -> None:
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "run")
    session = ours.InferenceSession(sums(), options)
    start = session.get_profiling_start_time_ns()
    assert start > 0
    results = session.run(["less"], FEED)
    assert plain(results) == plain(theirs.InferenceSession(sums()).run(["less"], FEED))
    file = Path(session.end_profiling())
    events = json.loads(file.read_text())
    assert file.name.startswith("run_") and file.parent == tmp_path
    made, run, _, *nodes = events
    names = ["session_initialization", "model_run", "SequentialExecutor::Execute"]
    assert [event["name"] for event in events[:3]] == names and made["ts"] == 0
    assert made["ts"] + made["dur"] <= run["ts"] and {event["cat"] for event in nodes} == {"Node"}
    assert all(run["ts"] <= event["ts"] and event["dur"] >= 0 for event in nodes)
    assert {type(event[key]) for event in events for key in ("ts", "dur")} == {int}  # tools format them so
    assert all(event["name"].endswith("_kernel_time") for event in nodes)
    assert {op for event in nodes for op in event["args"]["op_name"].split(" + ")} == {"Add", "Neg"}
    assert {event["args"]["provider"] for event in nodes} == {"CPUExecutionProvider"}
    details = [event["args"] for event in nodes]
    assert sum(int(each["output_size"]) for each in details) == 2 * ROWS.nbytes
    assert {each["parameter_size"] for each in details} == {"0"}
    assert all(int(each["activation_size"]) >= ROWS.nbytes for each in details)
    assert all({"node_index", "input_type_shape", "output_type_shape"} <= each.keys() for each in details)
    assert session.end_profiling() == "" == pair[theirs].end_profiling() == pair[ours].end_profiling()
    assert session.get_profiling_start_time_ns() == start  # as in ONNX Runtime, also at the end


def test_profiles_that_end_together_are_apart(tmp_path: Path) -> None:
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    sessions = [ours.InferenceSession(sums(), options) for _ in range(8)]
    paths = {session.end_profiling() for session in sessions}
    found = [[event["name"] for event in json.loads(Path(path).read_text())] for path in paths]
    assert found == [["session_initialization"]] * 8
