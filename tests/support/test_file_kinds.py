"""Errors for files that are not models or packages name the kind of the file."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.numpy import save as save_safetensors

import graphwright as gw
from graphwright.support.file_kinds import EXPORTED, HEAD, TORCHSCRIPT, kind_of
from tests.package.models import Classifier
from tests.tools.support import graphwright


def picture(format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 10, 10)).save(file, format)
    return file.getvalue()


def torch_file(new: bool) -> bytes:
    file = io.BytesIO()
    state = OrderedDict(weight=torch.ones(3, 4))
    torch.save(state, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in members.items():
            made.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return file.getvalue()


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        made.addfile(tarfile.TarInfo("model.onnx"), io.BytesIO())
    return file.getvalue()


def numpy_file(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    if arrays:
        np.savez(file, **arrays)
    else:
        np.save(file, np.ones(3))
    return file.getvalue()


def message(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a protobuf, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(payload)]) + payload


SAVED_MODEL = b"\x08\x01" + message(2, message(1, message(4, b"serve") + message(5, b"2.15.0")))
GRAPH_DEF = message(1, message(1, b"input") + message(2, b"Placeholder")) + message(1, message(1, b"w"))
TFLITE = struct.pack("<I", 28) + b"TFL3" + bytes(20)
GIT_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
OPENVINO = b'<?xml version="1.0"?>\n<net name="model" version="11">\n<layers></layers></net>'
KINDS = {
    "a PNG picture": picture("PNG"),
    "a JPEG picture": picture("JPEG"),
    "a GIF picture": picture("GIF"),
    "a WebP picture": picture("WEBP"),
    "a TIFF picture": picture("TIFF"),
    "a BMP picture": picture("BMP"),
    "a PyTorch file": torch_file(new=True),
    "a Python pickle": pickle.dumps({"weight": np.ones(3)}),
    "a safetensors file": save_safetensors({"weight": np.ones(3, np.float32)}),
    "a GGUF file": b"GGUF\x03\0\0\0" + bytes(40),
    "a TensorFlow Lite model": TFLITE,
    "a TensorFlow SavedModel": SAVED_MODEL,
    "a TensorFlow graph": GRAPH_DEF,
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(60),
    "a Keras model": archive(metadata_dot_json=b"{}", config_dot_json=b"{}", model_dot_weights_dot_h5=b"x"),
    "a Git LFS pointer": GIT_LFS,
    "an HTML page": b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>",
    "compressed with gzip": gzip.compress(b"model"),
    "a tar archive": tar(),
    "a zip archive": archive(model_dot_onnx=b"x"),
    "a NumPy array": numpy_file(),
    "a NumPy archive": numpy_file(x=np.ones(2)),
    "empty": b"",
    "an OpenVINO model": OPENVINO,
    "an XML text": b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    "a JSON text": json.dumps({"architectures": ["BertModel"]}).encode(),
    "a text file": "Ein Modell für Wörter: größer, höher.\n".encode() * 3,
    "a TensorRT engine": b"ftrt" + bytes(60),
    "a program or a shared object": b"\x7fELF" + bytes(60),
    "a PDF document": b"%PDF-1.7\n",
    "a network of ncnn": b"7767517\n2 1\nInput x 0 1 x\nReLU relu 1 1 x y\n",
    "a network of Caffe": b'name: "net"\nlayer {\n  name: "data"\n  type: "Input"\n}\n',
    "a LightGBM model": b"tree\nversion=v4\nnum_class=1\n",
    "an XGBoost model": b'{"learner":{"attributes":{}},"version":[3,1,0]}',
    "a CatBoost model": b"CBM1" + bytes(60),
}


@pytest.fixture(scope="module")
def package_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "classifier.om"
    gw.compile(Classifier().onnx()).save(path)
    return path


@pytest.fixture(params=KINDS)
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "model"
    path.write_bytes(KINDS[request.param])
    return path, request.param


def test_compiling_and_loading_say_what_it_is(foreign: tuple[Path, str]) -> None:
    path, what = foreign
    for given in (lambda: path, path.read_bytes, lambda: io.BytesIO(path.read_bytes())):
        with pytest.raises(gw.ModelError, match=f"is not an ONNX model: it is {what}"):
            gw.compile(given())
        with pytest.raises(gw.PackageError, match=f"not a valid package: it is {what}"):
            gw.load(given())
    for call in (gw.compile, gw.load):
        with pytest.raises(gw.GraphwrightError, match=f"^{path}: ") as caught:
            call(path)
        assert caught.value.diagnostics[0].hint


def test_sessions_and_the_command_say_what_it_is(foreign: tuple[Path, str], tmp_path: Path) -> None:
    path, what = foreign
    for command in ("run", "inspect", "compile"):
        made = graphwright(command, path)
        assert made.exit_code == 1 and what in made.stderr
    with pytest.raises(gw.GraphwrightError, match=what):
        gw.InferenceSession(path)
    named = path.rename(path.with_suffix(".om"))
    with pytest.raises(gw.PackageError, match=what):
        gw.InferenceSession(named)


def test_models_of_trees_name_their_converter() -> None:
    for data in (KINDS["an XGBoost model"], b"{L\0\0\0\0\0\0\0\x07learner{L" + bytes(20)):  # JSON, UBJSON
        with pytest.raises(
            gw.ModelError, match=r"(?s)it is an XGBoost model.*onnxmltools\.convert_xgboost\("
        ):
            gw.compile(data)
    with pytest.raises(gw.ModelError, match=r"(?s)it is a LightGBM model.*onnxmltools\.convert_lightgbm\("):
        gw.compile(KINDS["a LightGBM model"])
    with pytest.raises(gw.ModelError, match=r"(?s)it is a Python pickle.*skl2onnx\.to_onnx\("):
        gw.compile(KINDS["a Python pickle"])


@pytest.mark.parametrize("data", [torch_file(new=False), archive(net__data_dot_pkl=b"x")])
def test_older_and_scripted_files_of_pytorch(data: bytes) -> None:
    with pytest.raises(gw.ModelError, match=r"(?s)it is a PyTorch file.*torch\.export"):
        gw.compile(data)


def test_programs_of_pytorch_are_known_by_their_members() -> None:
    weights = archive(m__data__weights__weight_0=b"x" * 100_000, m__models__model_dot_json=b"{}")
    for data in (archive(m__models__model_dot_json=b"{}"), weights):
        assert kind_of(data[:HEAD], len(data)) is EXPORTED
    large = archive(m__data__0=b"x" * 100_000, m__data_dot_pkl=b"x")
    for data in (archive(m__data_dot_pkl=b"x", m__code__net_dot_py=b"x"), large):
        assert kind_of(data[:HEAD], len(data)) is TORCHSCRIPT


def test_compile_rejects_packages_and_load_rejects_models(package_path: Path) -> None:
    for package in (package_path, package_path.read_bytes()):
        with pytest.raises(gw.ModelError, match=r"(?s)it is a graphwright package.*graphwright\.load"):
            gw.compile(package)
    with pytest.raises(gw.PackageError, match=r"(?s)it is an ONNX model.*graphwright\.compile"):
        gw.load(Classifier().onnx())


def test_errors_about_folders_name_their_models(tmp_path: Path) -> None:
    def said() -> str:
        with pytest.raises(gw.ModelError, match=r"is a folder|SavedModel") as of_compile:
            gw.compile(tmp_path)
        with pytest.raises(gw.PackageError) as of_load:
            gw.load(tmp_path)
        assert of_load.value.diagnostics[0].hint == of_compile.value.diagnostics[0].hint
        return str(of_compile.value)

    assert "give a file" in said()
    (tmp_path / "Manifest.json").touch()
    (tmp_path / "Data").mkdir()
    with pytest.raises(gw.ModelError, match=r"(?s)is a Core ML package.*\.onnx it was converted from"):
        gw.compile(tmp_path)
    (tmp_path / "Manifest.json").unlink()
    (tmp_path / "model.safetensors").touch()
    assert "weights and no ONNX model" in said() and "torch.onnx.export" in said()
    (tmp_path / "model.onnx").touch()
    assert "give a file in it: model.onnx" in said()
    (tmp_path / "saved_model.pb").touch()
    assert f"--saved-model {tmp_path}" in said()


def test_a_large_file_of_another_kind_is_named_before_its_size(tmp_path: Path) -> None:
    with open(tmp_path / "model.gguf", "wb") as file:
        file.write(b"GGUF")
        file.truncate(2**31 + 5)  # sparse: takes no disk
    with pytest.raises(gw.ModelError, match="it is a GGUF file"):
        gw.compile(tmp_path / "model.gguf")


def test_models_that_begin_like_something_else_compile() -> None:
    """A producer's name of four bytes is where other formats have their magic number."""
    for mark in ("TFL3", "ORTM"):
        model = onnx.load_from_string(Classifier().onnx())
        model.producer_name = mark
        data = model.SerializeToString()
        assert data[4:8] == mark.encode()
        assert gw.compile(data).outputs[0].name == "y"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 9, 30, 31])
def test_short_files_are_identified_without_an_error(size: int) -> None:
    for data in KINDS.values():
        kind_of(data[:size], size)
        kind_of(data[:HEAD], len(data))


def test_the_error_about_a_truncated_package_says_so(package_path: Path) -> None:
    """Such a file cannot be unpacked."""
    data = package_path.read_bytes()
    for size in (4, 20, 29, 30, 36, 42, 43, 100):
        with pytest.raises(gw.PackageError) as caught:
            gw.load(data[:size])
        (fault,) = caught.value.diagnostics
        assert "fetch or write the file again" in fault.hint or "copied completely" in fault.hint
    with pytest.raises(gw.PackageError, match="it is 2 bytes long"):
        gw.load(data[:2])
    with pytest.raises(gw.ModelError, match="it is 1 byte long"):
        gw.compile(b"P")
