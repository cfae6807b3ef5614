"""``python -m benchmarks.models``, on a zoo of one small file."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from benchmarks.models import MODELS
from benchmarks.models.__main__ import main


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHWRIGHT_MODELS", str(tmp_path / "zoo"))
    monkeypatch.chdir(tmp_path)
    small = dataclasses.replace(MODELS["ppocr_cls"], write=lambda path: path.write_bytes(b"a model"))
    monkeypatch.setitem(MODELS, "ppocr_cls", small)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["models", *arguments])
    main()


def test_a_model_is_fetched_to_a_file(
    zoo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "fetch", "ppocr_cls", "-o", "model.onnx")
    assert (zoo / "model.onnx").read_bytes() == b"a model"
    assert capsys.readouterr().out.split() == ["ppocr_cls", "model.onnx"]
    run(monkeypatch, "fetch", "ppocr_cls")
    assert capsys.readouterr().out.split()[1].startswith(str(zoo / "zoo"))


def test_one_file_takes_one_model(
    zoo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "fetch", "ppocr_cls", "ppocr_det", "-o", "model.onnx")
    assert "--output takes one model, not 2" in capsys.readouterr().err
    assert not (zoo / "model.onnx").exists()
