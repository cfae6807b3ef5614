"""Values that are read in a native run, against those of ONNX Runtime and NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.planted_faults.models import MODELS
from graphwright.config import Options
from graphwright.tools.debugging.comparison import values_of_subject
from graphwright.tools.debugging.steps import StepWalk
from graphwright.tools.debugging.subject import Subject, open_subject

PLAIN = [name for name in MODELS if name not in ("branches", "loops")]


def subject_of(model: str, folder: Path) -> Subject:
    path = folder / "m.onnx"
    onnx.save(MODELS[model](), path)
    return open_subject(path, Options())


@pytest.mark.parametrize("model", PLAIN)
def test_inner_values_are_those_of_onnxruntime(model: str, tmp_path: Path) -> None:
    subject = subject_of(model, tmp_path)
    ours = values_of_subject(subject).arrays
    proto = MODELS[model]()
    names = {name for node in proto.graph.node for name in node.output} & ours.keys()
    assert len(names) >= min(3, len(proto.graph.node)) or model == "copied_output"
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names - {"y", "same"})
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, dict(subject.feeds)), strict=True)
    )
    for name in names:
        np.testing.assert_allclose(ours[name], wanted[name], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("model", MODELS)
def test_reading_changes_no_bit_of_the_outputs(model: str, tmp_path: Path) -> None:
    subject = subject_of(model, tmp_path)
    walk = StepWalk(subject.programs[-1])
    results = list(walk)
    assert results and all(result.distance.most <= 1e-5 for result in results)
    for read, plain in zip(walk.outputs, subject.model.run(subject.feeds).values(), strict=True):
        np.testing.assert_array_equal(read, plain)


def test_dynamic_sizes_are_those_of_the_feeds(tmp_path: Path, model: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    subject = open_subject(model, Options(), [f"x={tmp_path / 'x.npy'}"])
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(
        values_of_subject(subject).arrays["y"], np.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_the_branch_that_ran_is_read(sign: int, tmp_path: Path) -> None:
    proto = MODELS["branches"]()
    onnx.save(proto, tmp_path / "m.onnx")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    direction = sign * np.linalg.inv(weights["w1"].astype(np.float64)).sum(axis=0)  # a is of this sign
    x = np.tile(direction, (8, 1)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    subject = open_subject(tmp_path / "m.onnx", Options(), [f"x={tmp_path / 'x.npy'}"])
    results = {result.node.location: result.got for result in StepWalk(subject.programs[0])}
    taken, other = ("yes_node", "no_node") if sign > 0 else ("no_node", "yes_node")
    chosen = weights["w1" if sign > 0 else "w2"]
    wanted = x.astype(np.float64) @ weights["w1"] @ chosen
    assert other not in results
    np.testing.assert_allclose(results[taken], wanted, rtol=1e-3, atol=1e-3)
