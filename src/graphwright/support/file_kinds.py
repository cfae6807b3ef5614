"""Identifies files by their first bytes, for errors about files that are not models or packages."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

HEAD: Final = 1 << 16
"""How many bytes at the beginning of a file are examined."""


FileId = tuple[int, int]
"""Device and inode: the same for all names and links of one file."""


def file_id(status: os.stat_result) -> FileId:
    """The identity of a file."""
    return status.st_dev, status.st_ino


class FileKind(NamedTuple):
    """The kind of a file, as a text that continues "it is", and advice on what to do."""

    what: str
    advice: str


ONNX: Final = FileKind(
    "an ONNX model", 'graphwright.compile makes a model of it, .save("model.om") a package'
)
PACKAGE: Final = FileKind(
    "a graphwright package, which is compiled already", "graphwright.load loads it, graphwright run runs it"
)
_EXPORT: Final = 'export the model: torch.onnx.export(model, inputs, "model.onnx", dynamo=True)'
_SKLEARN: Final = "skl2onnx.to_onnx(model, inputs)"
_TREES: Final = (
    "load the model and convert it with onnxmltools: onnxmltools.convert_{}(model, initial_types=...)"
)
_ORIGINAL: Final = "give the .onnx it was converted from, or export the original model as ONNX"
_TF: Final = "convert the model with tf2onnx: python -m tf2onnx.convert"
_WEIGHTS_ALONE: Final = "weights without a graph: export the model that they belong to as ONNX"
_PICTURE: Final = "give the model; a picture can be an input of a run, as an array"
_UNPACK: Final = "unpack it, and give the model in it"
_AGAIN: Final = "fetch the file again: the server sent a page in its place"

EXPORTED: Final = FileKind(
    "a program of torch.export (.pt2)", "graphwright.compile takes its path, where PyTorch is installed"
)
TORCHSCRIPT: Final = FileKind(
    "a TorchScript file", "graphwright.compile takes its path and example inputs, where PyTorch is installed"
)
TORCH: Final = FileKind(
    "a PyTorch file of pickled objects, such as a state dict, which graphwright never reads",
    "make the module in Python, load the state dict into it, and give both to graphwright.compile(module, "
    'example_inputs), or write a program: torch.export.save(torch.export.export(module, inputs), "m.pt2")',
)
SAFETENSORS: Final = FileKind("a safetensors file", _WEIGHTS_ALONE)
SAVED_MODEL: Final = FileKind("a TensorFlow SavedModel", f"{_TF} --saved-model FOLDER --output model.onnx")
GRAPH_DEF: Final = FileKind("a TensorFlow graph", f"{_TF} --graphdef FILE --output model.onnx")
XGBOOST: Final = FileKind("an XGBoost model", _TREES.format("xgboost"))
CORE_ML: Final = FileKind("a Core ML package", _ORIGINAL)
ZIP: Final = FileKind("a zip archive", _UNPACK)
_REWRITE: Final = "fetch or write the file again"
CUT_ZIP: Final = FileKind("the beginning of a zip archive, such as a graphwright package", _REWRITE)

_MAGIC: Final = (
    (0, b"\x89PNG\r\n\x1a\n", FileKind("a PNG picture", _PICTURE)),
    (0, b"\xff\xd8\xff", FileKind("a JPEG picture", _PICTURE)),
    (0, b"GIF87a", FileKind("a GIF picture", _PICTURE)),
    (0, b"GIF89a", FileKind("a GIF picture", _PICTURE)),
    (8, b"WEBP", FileKind("a WebP picture", _PICTURE)),
    (0, b"II*\0", FileKind("a TIFF picture", _PICTURE)),
    (0, b"MM\0*", FileKind("a TIFF picture", _PICTURE)),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", TORCH),
    (0, b"GGUF", FileKind("a GGUF file", "weights for llama.cpp: export the original model as ONNX")),
    (4, b"TFL3", FileKind("a TensorFlow Lite model", f"{_TF} --tflite FILE --output model.onnx")),
    (
        4,
        b"ORTM",
        FileKind("a model in ONNX Runtime's own format (.ort)", "graphwright.compile makes a model of it"),
    ),
    (0, b"\x89HDF\r\n\x1a\n", FileKind("an HDF5 file, such as a Keras model", f"{_TF} --keras FILE")),
    (
        0,
        b"version https://git-lfs.github.com/spec/",
        FileKind("a Git LFS pointer, in place of the file that it stands for", "git lfs pull fetches that"),
    ),
    (0, b"\x1f\x8b", FileKind("compressed with gzip", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", FileKind("compressed with zstd", _UNPACK)),
    (0, b"\xfd7zXZ\0", FileKind("compressed with xz", _UNPACK)),
    (0, b"BZh", FileKind("compressed with bzip2", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7z archive", _UNPACK)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK)),
    (0, b"\x93NUMPY", FileKind("a NumPy array", "give the model; an array can be an input of a run")),
    (0, b"\x7fELF", FileKind("a program or a shared object", "give the model that it was made from")),
    (0, b"ftrt", FileKind("a TensorRT engine", "give the .onnx it was built from")),
    (0, b"7767517\n", FileKind("a network of ncnn", _ORIGINAL)),
    (0, b"tree\nversion=", FileKind("a LightGBM model", _TREES.format("lightgbm"))),
    (0, b"{L\0\0\0\0\0\0\0\x07learner", XGBOOST),
    (
        0,
        b"CBM1",
        FileKind("a CatBoost model", 'load it and call model.save_model("model.onnx", format="onnx")'),
    ),
    (0, b"%PDF", FileKind("a PDF document", "give the model")),
    (0, b"BM", FileKind("a BMP picture", _PICTURE)),
)
"""The offset of bytes, the bytes, and the kind of files that have them there."""
_PROGRAM: Final = re.compile(
    rb"/(models|archive_format|data/(weights|constants|sample_inputs|aotinductor))(/|$)"
)
"""In the name of the first member of a program of torch.export."""
_TAGS: Final = frozenset({2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26})
"""Field numbers of ModelProto in onnx.proto, after that of the IR version."""


def kind_of(head: bytes, size: int) -> FileKind | None:
    """The kind of a file of ``size`` bytes that begins with ``head``; None if unknown.

    ONNX models have no signature, so some are mistaken for something else: call this only for files that
    could not be read.
    """
    if not size:
        return FileKind("empty", _REWRITE)
    for offset, magic, kind in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return kind
    return _archive(head) or _binary(head, size) or _text(head)


def kind_of_file(path: Path) -> FileKind | None:
    """The kind of the file or folder at ``path``; None if it is unknown or cannot be read."""
    try:
        if path.is_dir():
            return _folder(path)
        with open(path, "rb") as file:
            return kind_of(file.read(HEAD), os.fstat(file.fileno()).st_size)
    except OSError:
        return None


def is_package(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a graphwright package, intact or damaged."""
    return _archive(head) is PACKAGE


def _archive(head: bytes) -> FileKind | None:
    """The kind of a zip archive, judged by the names of its first members."""
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    end = 30 + int.from_bytes(head[26:28], "little")
    first = head[30:end]
    if head[2:4] == b"\x03\x04" and len(head) < end:
        return PACKAGE if first and b"manifest.json".startswith(first) else CUT_ZIP
    if first == b"manifest.json":
        return PACKAGE
    if _PROGRAM.search(first):
        return EXPORTED
    if re.search(rb"/data/\d+$", first) or b"/code/" in head or b"/constants.pkl" in head:
        return TORCHSCRIPT
    if b"/data.pkl" in head or first.endswith(b"/.format_version"):
        return TORCH
    if first in (b"metadata.json", b"config.json") and b"model.weights.h5" in head:
        return FileKind("a Keras model", f"{_TF} --keras FILE")
    if first.endswith(b".npy"):
        return FileKind("a NumPy archive", "give the model; an array can be an input of a run")
    return ZIP


def _binary(head: bytes, size: int) -> FileKind | None:
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        advice = f"it is never read, since it may run any code; {_EXPORT}, or for scikit-learn: {_SKLEARN}"
        return FileKind("a Python pickle", advice)
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return SAFETENSORS
    if head[:3] == b"\x08\x01\x12" and (b"serve" in head or b"tensorflow" in head or b"NoOp" in head):
        return SAVED_MODEL
    if head[:1] == b"\x0a" and re.search(rb"\x12.(Placeholder|Const|NoOp|VarHandleOp)", head[:4096]):
        return GRAPH_DEF
    return ONNX if _is_onnx(head) else None


def _is_onnx(head: bytes) -> bool:
    """Whether ``head`` is an IR version, followed by another field of an ONNX model."""
    if len(head) < 4 or head[0] != 8 or not 0 < head[1] < 64:
        return False
    tag = head[2] if head[2] < 128 else head[2] & 127 | head[3] << 7
    return tag >> 3 in _TAGS and tag & 7 == (0 if tag >> 3 == 5 else 2)


def _text(head: bytes) -> FileKind | None:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:2048].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return FileKind("an HTML page", _AGAIN)
    if start.startswith((b"<?xml", b"<net ")):
        if b"<net " in start:
            return FileKind("an OpenVINO model", "give the .onnx it was converted from")
        return FileKind("an XML text", _AGAIN)
    if start.startswith(b"{") and re.match(rb'\{\s*"learner"\s*:', start):
        return XGBOOST
    if start[:1] in (b"{", b"["):
        return FileKind("a JSON text", "give the model that it describes")
    if start and not re.search(rb"[^\t-\r -~\x80-\xff]", head) and _is_utf8(head):
        if len(head) < 4:  # the beginning of anything
            return FileKind(f"{len(head)} byte{'s' * (len(head) > 1)} long", _REWRITE)
        if re.search(rb"(^|\n)layers?\s*\{", start):
            return FileKind("a network of Caffe", "convert it, with the weights in its .caffemodel, to ONNX")
        return FileKind("a text file", "give the model; .onnx files are binary")
    return None


def _is_utf8(head: bytes) -> bool:
    """Whether ``head`` is UTF-8; its last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _folder(path: Path) -> FileKind:
    """The kind of a folder, with the files in it that may be meant."""
    names = sorted(entry.name for entry in path.iterdir() if entry.name.isprintable())
    if "saved_model.pb" in names:
        return SAVED_MODEL._replace(advice=SAVED_MODEL.advice.replace("FOLDER", str(path)))
    if {"Manifest.json", "Data"} <= {*names}:
        return CORE_ML
    found = [name for name in names if name.endswith((".onnx", ".om"))]
    if found:
        return FileKind("a folder", f"give a file in it: {', '.join(found[:5])}")
    if any(name.endswith((".safetensors", ".bin", ".pt", ".pth")) for name in names):
        return FileKind("a folder with weights and no ONNX model", _EXPORT)
    return FileKind("a folder", "give a file")
