"""Models and packages are read from paths, bytes and open files; saving never overwrites the source."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from tests.onnx_models import model_proto
from tests.package.models import Classifier
from tests.tools.support import graphwright

FORMS: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "Path": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "open file": lambda path: path.open("rb"),
    "unbuffered file": lambda path: path.open("rb", buffering=0),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_model_compiles(
    form: str, classifier: Classifier, options: Options, tmp_path: Path, package_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(classifier.onnx())
    made = io.BytesIO()
    gw.compile(FORMS[form](path), options=options).save(made)
    assert made.getvalue() == package_path.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_package_loads(
    form: str, package_path: Path, options: Options, classifier: Classifier, model: gw.Model
) -> None:
    without = replace(options, cc="/no/compiler")
    loaded = gw.load(FORMS[form](package_path), options=without)
    np.testing.assert_array_equal(loaded(classifier.x)[0], model(classifier.x)[0])
    again = io.BytesIO()
    loaded.save(again)
    assert again.getvalue() == package_path.read_bytes()


@pytest.mark.parametrize("form", ["bytes", "BytesIO", "open file", "Path"])
def test_sessions_take_them_all(
    form: str, package_path: Path, classifier: Classifier, tmp_path: Path
) -> None:
    model = tmp_path / "named like nothing"
    model.write_bytes(classifier.onnx())
    renamed = tmp_path / "package"
    renamed.write_bytes(package_path.read_bytes())
    settings = gw.SessionOptions()
    for path in (model, renamed):
        (y,) = gw.InferenceSession(FORMS[form](path), settings).run(None, {"x": classifier.x})
        np.testing.assert_allclose(y, classifier.value(classifier.x), rtol=1e-4, atol=1e-6)


def test_a_package_behind_other_bytes_is_read_from_where_the_file_stands(
    package_path: Path, options: Options, classifier: Classifier
) -> None:
    """Pickle and NumPy read in the same way, so that several objects can follow each other in a file."""
    file = io.BytesIO(b"header" + package_path.read_bytes())
    file.seek(6)
    assert gw.load(file, options=options)(classifier.x)[0].shape == (2, 5)
    model = io.BytesIO(b"header" + classifier.onnx())
    model.seek(6)
    assert gw.compile(model, options=options).inputs[0].name == "x"


def test_pipes_are_read_and_written(
    model: gw.Model, package_path: Path, options: Options, classifier: Classifier, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with open(tmp_path / "pipe", "wb", buffering=0) as pipe:
            model.save(pipe)

    writer = threading.Thread(target=write)
    writer.start()
    loaded = gw.load(tmp_path / "pipe", options=options)
    writer.join()
    assert loaded(classifier.x)[0].shape == (2, 5)


@pytest.mark.parametrize("source", [3, None, io.StringIO("text"), {}])
def test_invalid_sources_are_rejected(source: Any) -> None:
    with pytest.raises(gw.ModelError, match=r"\[source\]|TypeError"):
        gw.compile(source)
    with pytest.raises(gw.PackageError, match=r'(?s)\[source\].*"rb"'):
        gw.load(source)


def test_a_failed_save_keeps_the_existing_file(tmp_path: Path, model: gw.Model) -> None:
    with pytest.raises(OSError):
        model.save(tmp_path / "no folder" / "model.om")
    with pytest.raises(OSError):
        model.save(tmp_path)
    assert os.listdir(tmp_path) == []


# What would be replaced


def with_external_data(folder: Path) -> Path:
    node, weights = helper.make_node("Add", ["x", "w"], ["y"]), np.arange(6, dtype=np.float32).reshape(2, 3)
    made = model_proto([node], {"x": [2, 3]}, {"y": [2, 3]}, {"w": weights})
    path = folder / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    return path


def names_of(path: Path) -> list[Path]:
    """``path``, a link to it, and another name of the file."""
    link, other = path.with_name(f"link to {path.name}"), path.with_name(f"also {path.name}")
    link.symlink_to(path)
    other.hardlink_to(path)
    return [path, link, other, path.parent / ".." / path.parent.name / path.name]


def test_saving_does_not_replace_the_model_nor_its_data(tmp_path: Path, options: Options) -> None:
    path = with_external_data(tmp_path)
    model = gw.compile(path, options=options)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for target in (*names_of(path), *names_of(tmp_path / "weights.bin")):
        with pytest.raises(gw.PackageError, match=r"(?s)file that the model was made from.*another name"):
            model.save(target)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    for _ in range(2):
        model.save(tmp_path / "model.om")


@pytest.mark.parametrize("trust", [True, False])
def test_saving_does_not_replace_the_package_that_was_loaded(
    package_path: Path, tmp_path: Path, options: Options, trust: bool
) -> None:
    """Saving a package that was compiled again could lose kernels for other CPUs."""
    path = tmp_path / "model.om"
    path.write_bytes(package_path.read_bytes())
    stranger = replace(options, key_dir=tmp_path / "no key")
    model = gw.load(path, trust=trust, options=stranger)
    for target in names_of(path):
        with pytest.raises(gw.PackageError, match="overwrite the file that the model was made from"):
            model.save(target)
    model.save(tmp_path / "other.om")


def test_the_command_rejects_before_the_work_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_external_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = path.read_bytes()
    for target in names_of(path):
        made = graphwright("compile", path, "-o", target)
        assert made.exit_code == 2 and "the model itself" in made.stderr
    assert path.read_bytes() == before
    assert graphwright("compile", path, "-o", "weights.bin").exit_code == 1
    assert (tmp_path / "weights.bin").stat().st_size == 24
