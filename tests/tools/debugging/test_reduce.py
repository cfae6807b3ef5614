"""Models are reduced while a command fails; a part computes the same values as in the whole model."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphwright as gw
from benchmarks.planted_faults.models import MODELS
from graphwright.tools.debugging.subject import evaluated, random_feeds
from graphwright.tools.debugging.submodel import Divisible
from tests.tools.support import graphwright

CHECK = """
import sys
path, *wanted = sys.argv[1:]
data = open(path, "rb").read()
sys.exit(3 if all(op.encode() in data for op in wanted) else 0)
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A command that exits with 3 if a model contains the given ops. It searches for their names, which no
    other name in the model contains.
    """
    (tmp_path / "check.py").write_text(CHECK)
    return f"{sys.executable} -S -E {tmp_path / 'check.py'} {{}}"


@pytest.mark.parametrize(
    ("model", "ops"),
    [
        ("convolutions", ["Softmax"]),
        ("movement", ["Transpose", "Exp"]),
        ("loops", ["Loop"]),
        ("branches", ["If"]),
    ],
)
def test_only_nodes_that_the_command_needs_remain(model: str, ops: list[str], command: str) -> None:
    onnx.save(MODELS[model](), "m.onnx")
    result = graphwright("debug", "reduce", "m.onnx", "--when", f"{command} {' '.join(ops)}", "-o", "s.onnx")
    assert result.exit_code == 0, result.output
    made = onnx.load("s.onnx")
    onnx.checker.check_model(made)
    assert sorted(node.op_type for node in made.graph.node) == sorted(ops)
    feeds = dict(np.load("s.npz"))
    onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)


def test_a_package_is_rejected(command: str) -> None:
    gw.compile(MODELS["convolutions"]()).save("m.om")
    result = graphwright("debug", "reduce", "m.om", "--when", f"{command} Softmax")
    assert result.exit_code == 1
    assert "give the original ONNX model" in result.output


def test_a_command_gets_feeds_of_the_part(tmp_path: Path) -> None:
    onnx.save(MODELS["residuals"](), "m.onnx")
    (tmp_path / "run.py").write_text(
        "import sys, numpy as np, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "session.run(None, dict(np.load(sys.argv[2])))\n"
        "names = [o.name for o in session.get_outputs()]\n"
        "sys.exit(1 if 'h' in names else 0)\n"
    )
    when = f"{sys.executable} {tmp_path / 'run.py'} {{}} {{feeds}}"
    proto = MODELS["residuals"]()
    proto.graph.output.append(onnx.ValueInfoProto(name="h"))
    onnx.save(onnx.shape_inference.infer_shapes(proto), "m.onnx")
    result = graphwright("debug", "reduce", "m.onnx", "--when", when)
    assert result.exit_code == 0, result.output
    assert [node.name for node in onnx.load("m.reduced.onnx").graph.node] == ["h_node"]


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    onnx.save(MODELS["in_place"](), "m.onnx")
    graphwright(
        "debug", "reduce", "m.onnx", "--when", f"false {{}} ; touch {tmp_path / 'made'}", "--budget", "1"
    )
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("when", "code", "said"),
    [
        ("true {}", 1, "the command succeeds on the whole model"),
        ("false", 2, "must contain {}"),
        ("'false {}", 2, "is not a command"),
        ("no-such-program {}", 2, "cannot be run"),
        (f"{sys.executable} -c 'import time; time.sleep(9)' {{}}", 1, "the command takes more than"),
    ],
)
def test_unsuitable_commands_are_rejected(when: str, code: int, said: str) -> None:
    onnx.save(MODELS["in_place"](), "m.onnx")
    timeout = ("--timeout", "0.2") if "sleep" in when else ()
    result = graphwright("debug", "reduce", "m.onnx", "--when", when, *timeout)
    assert result.exit_code == code and said in result.stderr
    assert not Path("m.reduced.onnx").exists()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(MODELS)), st.data())
def test_any_part_is_valid_and_computes_what_the_whole_does(model: str, data: st.DataObject) -> None:
    proto = MODELS[model]()
    values = evaluated(proto, random_feeds(proto, None, {}, 0))
    count = len(proto.graph.node)
    nodes = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    part = Divisible(proto, values).part(sorted(nodes))
    assert set(part.nodes) == nodes, "all edges can be cut"
    onnx.checker.check_model(part.proto, full_check=True)
    session = onnxruntime.InferenceSession(part.proto.SerializeToString())
    for info, array in zip(session.get_outputs(), session.run(None, dict(part.feeds)), strict=True):
        if info.name in values:
            np.testing.assert_allclose(array, values[info.name], rtol=1e-4, atol=1e-4)


def test_without_a_run_only_edges_of_known_type_are_cut() -> None:
    proto = MODELS["movement"]()
    part = Divisible(proto, {}).part([5])
    assert [node.name for node in part.proto.graph.node] == ["part_node"] and not part.feeds
    onnx.checker.check_model(part.proto, full_check=True)
