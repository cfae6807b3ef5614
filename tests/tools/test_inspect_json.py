"""``graphwright inspect --json``: keys that stay, for every kind of package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphwright as gw
from graphwright.records import replace
from graphwright.tools.reports.model_facts import constraint_texts
from tests.package.models import rank_by_size

from .support import HOSTILE, graphwright, write_model

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


def facts(*arguments: object) -> Any:
    result = graphwright("inspect", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_package_with_dynamic_sizes(model: Path) -> None:
    gw.compile(model, shapes={"x": ("N=2..8", 4)}).save("out.om")
    found = facts("out.om")
    assert found["format"] == 1 and found["graphwright"] == gw.__version__
    assert found["file"] == {"path": "out.om", "bytes": Path("out.om").stat().st_size, "trusted": True}
    assert found["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["N", 4]}]
    assert found["outputs"] == [{"name": "y", "dtype": "f32", "shape": ["N", 3]}]
    assert found["sizes"] == {"N": {"least": 2, "most": 8, "multiple": 1}}
    assert found["ops"]["by_name"] == {"MatMul": 1, "Relu": 1} and found["ops"]["count"] == 2
    assert found["metadata"] == {"key": "value"} and found["memory"] is None
    (program,) = found["programs"]
    assert program["inputs"] == found["inputs"]
    assert program["targets"][0]["isa"] == found["options"]["isa"]
    assert program["targets"][0]["tasks"]["launch"] >= 1


def test_sizes_that_are_given_show_memory(model: Path) -> None:
    found = facts(model, "--shape", "x:5,4")
    assert found["file"]["trusted"] is None
    assert found["memory"]["inputs"] == {"x": [5, 4]}
    assert found["memory"]["arena_bytes"] >= found["memory"]["live_bytes"] >= 0
    assert found["weights"]["tensors"] == 1 and found["weights"]["bytes"] >= 4 * 3 * 4


def test_gears_ranks_and_stages(model: Path) -> None:
    found = facts(model, "--gears", "x:1,4;8,4", "--between", "pad")
    assert found["gears"] == {"other_shapes": "pad", "shapes": [{"x": [1, 4]}, {"x": [8, 4]}]}
    shapes = [program["inputs"][0]["shape"] for program in found["programs"]]
    assert shapes == [[1, 4], [8, 4], ["N", 4], ["N", 4]]
    onnx.save(rank_by_size(), "ranks.onnx")
    staged = facts("ranks.onnx")
    assert staged["programs"] and all(set(host) == {"op", "node", "reason"} for host in staged["host_ops"])


def test_a_file_of_others_is_not_trusted(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gw.compile(model).save("out.om")
    monkeypatch.setenv("GRAPHWRIGHT_KEY_DIR", str(tmp_path / "another"))
    assert facts("out.om")["file"]["trusted"] is False


def test_hostile_names_are_json(tmp_path: Path) -> None:
    found = facts(write_model(tmp_path / "m.onnx", HOSTILE))
    assert found["inputs"][0]["name"] == f"x{HOSTILE}"


def test_json_cannot_be_combined_with_other_forms(model: Path) -> None:
    assert graphwright("inspect", model, "--json", "--report").exit_code == 2


def test_the_page_has_all_keys(model: Path) -> None:
    found = facts(model, "--shape", "x:1,4")
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    used: set[str] = set()

    def collect(value: Any, keep: bool = True) -> None:
        if isinstance(value, dict):
            used.update(value if keep else ())
            for key, item in value.items():
                collect(
                    item, key not in ("sizes", "options", "metadata", "by_name", "tasks", "kernels", "inputs")
                )
        for item in value if isinstance(value, list) else ():
            collect(item)

    collect(found)
    assert used - documented - {"least", "most"} == set()
    assert np.all([key in documented for key in found])


@pytest.mark.parametrize(
    ("constraint", "shown"),
    [
        ("0 <= W - 33 (node Conv)", "W >= 33 (node Conv)"),
        ("-1 <= N - 3 (node p - 3)", "N >= 2 (node p - 3)"),
        ("1 <= N (node a)", "N >= 1 (node a)"),
        ("0 <= floordiv(N - 3, 2) (node a)", "floordiv(N - 3, 2) >= 0 (node a)"),
        ("0 <= N + 4 (node a)", "N >= -4 (node a)"),
        ("N == M (node a)", "N == M (node a)"),
    ],
)
def test_bounds_are_shown_as_bounds(constraint: str, shown: str, model: Path) -> None:
    entry = replace(gw.compile(model).entry, constraints=(constraint,))
    assert constraint_texts(entry) == [shown]
