"""The page about other engines: every call and command of its right columns runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphwright as gw
from tests.docs.commands import PROGRAMS, run
from tests.onnx_models import model_proto

PAGE = Path(__file__).parents[2] / "docs" / "other_engines.md"
ABBREVIATED = {"torch.no_grad()", "torch.inference_mode()"}
"""Code in prose, which is no statement of its own."""


def model() -> onnx.ModelProto:
    """``hidden = x @ w``, ``y = softmax(hidden)``; ``x: f32[N, 4]``."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["hidden"]),
        helper.make_node("Softmax", ["hidden"], ["y"], axis=-1),
    ]
    weights = {"w": np.arange(16, dtype=np.float32).reshape(4, 4) / 10}
    return model_proto(nodes, {"x": ["N", 4]}, {"y": ["N", 4]}, weights)


def sections() -> Iterator[tuple[str, list[str]]]:
    """The title of each section, and the code in the right columns of its table."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        rows = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("|")]
        yield title, [code for row in rows[2:] for code in re.findall(r"`([^`]+)`", row[-1])]


SECTIONS = dict(sections())


def test_the_tables_are_read() -> None:
    assert [len(codes) for codes in SECTIONS.values()] == [15, 28, 34, 7, 14, 9, 9, 3, 10, 8]
    assert "model(x)" in SECTIONS["ONNX Runtime"]


@pytest.mark.parametrize("title", SECTIONS)
def test_the_right_column_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "model.onnx")
    names: dict[str, Any] = {}
    (preamble,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(preamble, str(PAGE), "exec"), names)
    exec('gw.compile("model.onnx").save("model.om")', names)
    exec('torch.jit.save(torch.jit.trace(module, torch.from_numpy(x)), "module.pt")', names)
    exec('np.savez("x.npz", x=x)', names)
    for code in SECTIONS[title]:
        program, *arguments = shlex.split(code) if code.split()[0] in PROGRAMS else (code,)
        if program in PROGRAMS:
            done = run(program, *arguments)
            assert done.status == 0, f"{code}\n{done.stderr}"
        elif code not in ABBREVIATED:
            exec(compile(code, f"{PAGE.name}: {code}", "exec"), names)


def test_the_first_rows_give_the_stated_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of the table give the stated result: all outputs, one output by name, and the caller's
    memory.
    """
    onnx.save(model(), tmp_path / "model.onnx")
    made, x = gw.compile(tmp_path / "model.onnx", outputs=["hidden", "y"]), np.ones((2, 4), np.float32)
    hidden = x @ (np.arange(16, dtype=np.float32).reshape(4, 4) / 10)
    wanted = np.exp(hidden) / np.exp(hidden).sum(-1, keepdims=True)
    np.testing.assert_allclose(made.run({"x": x}, ["y"])["y"], wanted, rtol=1e-6)
    np.testing.assert_allclose(made(x)[0], hidden, rtol=1e-6)
    y = np.empty((2, 4), np.float32)
    made.run({"x": x}, out={"y": y})
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
