"""Damaged ``.om`` files, each a pure function of its number.

Bytes of the file are damaged; or a member is damaged and all hashes are corrected. Unsigned packages contain
kernels of an attacker, which leave a mark if they are opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import graphwright as gw
from graphwright.config import Options
from graphwright.package.read import read_package
from graphwright.runtime.model import Model
from graphwright.targets.cpu.toolchain import find_toolchain
from tests.fuzz import onnx_bytes
from tests.package.damage import GRAPH, manifest_of, members_of, put_together
from tests.package.lookup import lookup
from tests.package.models import Classifier
from tests.package.stated_types import affine, branching
from tests.robustness.attempt import run

ABSURD = (
    0,
    1,
    2,
    3,
    5,
    7,
    64,
    4096,
    -1,
    -2,
    -64,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
)
WORDS = (
    "f32",
    "i64",
    "bool",
    "i8",
    "f64",
    "u8",
    "N",
    "M",
    "inf",
    "nan",
    "_",
    "%x",
    "%y",
    "[]",
    "()",
    "{",
    "}",
    "",
)
COMPILER = os.environ.get("FUZZ_CC", "")
"""The C compiler of generated kernels; the first that is found where it is empty."""
SEEDS: Mapping[str, Callable[[], bytes]] = {
    "affine": affine,
    "lookup": lookup,
    "cnn": lambda: Classifier().onnx(),
    "branching": branching,
}
KINDS = ("bytes", "graph", "graph", "manifest", "tasks")
"""What is damaged. Packages that are trusted are loaded and planned; those that are not, run."""
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[A-Za-z_][A-Za-z0-9_]*|%[A-Za-z0-9_]+|[\[\](){},=:]")


@dataclass(frozen=True)
class Seed:
    """A valid package."""

    path: Path
    members: Mapping[str, bytes]
    manifest: Mapping[str, Any]


class Workshop:
    """Makes mutants in a folder of its own, and tries them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, folder / "foreign-code-ran"
        shared: dict[str, Any] = {"cache_dir": folder / "cache", "threads": 1, "cc": COMPILER}
        self.options = Options(key_dir=folder / "keys", **shared)
        self.strangers = Options(key_dir=folder / "others", **shared)
        self.evil = self._evil()
        self.seeds = [self._seed(name) for name in SEEDS]

    def _seed(self, name: str) -> Seed:
        path = self.folder / f"{name}.om"
        gw.compile(SEEDS[name](), options=self.options).save(path)
        return Seed(path, members_of(path), manifest_of(path))

    def _evil(self) -> bytes:
        """A shared object that leaves a mark when it is opened."""
        source, made = self.folder / "evil.c", self.folder / "evil.so"
        opened = f'open("{self.mark}", O_CREAT | O_WRONLY, 0600)'
        function = f"__attribute__((constructor)) static void leave(void) {{ (void){opened}; }}"
        source.write_text(f"#include <fcntl.h>\n{function}\n")
        command = [*find_toolchain(self.options).command, "-shared", "-fPIC", "-o", str(made), str(source)]
        subprocess.run(command, check=True)
        return made.read_bytes()

    def mutant(self, number: int) -> tuple[Path, bool]:
        """Mutant ``number``, and whether it is to be trusted."""
        generator = np.random.default_rng(number)
        seed, kind = self.seeds[number % len(self.seeds)], KINDS[number // len(self.seeds) % len(KINDS)]
        path = self.folder / "mutant.om"
        if kind == "bytes":
            data = bytearray(seed.path.read_bytes())
            onnx_bytes.pick(onnx_bytes.BYTES, generator)(data, generator)
            path.write_bytes(data)
            return path, bool(generator.integers(2))
        members = {n: d for n, d in seed.members.items() if n not in ("signature", "manifest.json")}
        manifest = json.loads(json.dumps(seed.manifest))
        trusted = kind == "tasks" or (kind == "manifest" and bool(generator.integers(2)))
        if not trusted:
            members |= {name: self.evil for name in members if name.endswith(".so")}
        if kind == "graph":
            members[GRAPH] = damaged_text(members[GRAPH].decode(), generator).encode()
        elif kind == "tasks":
            name = onnx_bytes.pick(sorted(n for n in members if n.endswith("tasks.json")), generator)
            members[name] = damaged_json(members[name], generator)
        manifest["members"] = {n: [len(d), _sha256(d)] for n, d in members.items()}
        if kind == "manifest":
            manifest = json.loads(damaged_json(json.dumps(manifest).encode(), generator))
        return put_together(path, manifest, members, None), trusted

    def attempt(self, number: int) -> str:
        """``ran``, or the code of the fault that refused mutant ``number``."""
        path, trusted = self.mutant(number)
        generator = np.random.default_rng(number)
        mapped = bool(generator.integers(2))
        try:
            if trusted:
                return self._planned(path, mapped, generator)
            model = gw.load(path, mmap=mapped, options=self.strangers)
            result = run(model, generator)
        except gw.GraphwrightError as error:
            assert str(error), "an error must say something"
            return error.diagnostics[0].code
        assert not self.mark.exists(), "foreign code ran"
        return result

    def _planned(self, path: Path, mapped: bool, generator: np.random.Generator) -> str:
        """Loads with trust and plans for some shapes, so that kernels get the numbers in the file."""
        read_package(path, trust=True, use_mmap=mapped)
        options = replace(self.strangers, device="null")
        model: Model = gw.load(path, trust=True, mmap=mapped, options=options)
        run(model, generator)
        return "planned"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def damaged_text(text: str, generator: np.random.Generator) -> str:
    """The text of a graph with one to three tokens or lines changed."""
    for _ in range(int(generator.integers(1, 4))):
        text = onnx_bytes.pick(_TEXTS, generator)(text, generator)
    return text


def _other_token(text: str, generator: np.random.Generator) -> str:
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return text
    old = onnx_bytes.pick(tokens, generator)
    if re.fullmatch(r"-?\d+", old[0]):
        new = str(onnx_bytes.pick(ABSURD, generator))
    else:
        new = (
            onnx_bytes.pick(tokens, generator)[0]
            if generator.integers(3)
            else onnx_bytes.pick(WORDS, generator)
        )
    return text[: old.start()] + new + text[old.end() :]


def _other_number(text: str, generator: np.random.Generator) -> str:
    numbers = list(re.finditer(r"(?<![A-Za-z0-9_#])-?\d+(?![A-Za-z0-9_.])", text))
    if not numbers:
        return text
    old = onnx_bytes.pick(numbers, generator)
    return text[: old.start()] + str(onnx_bytes.pick(ABSURD, generator)) + text[old.end() :]


def _other_shape(text: str, generator: np.random.Generator) -> str:
    types = list(re.finditer(r"\b(?:f32|i64|f64|bool|u8)\[[^\]]*\]", text))
    if not types:
        return text
    old, new = onnx_bytes.pick(types, generator), onnx_bytes.pick(types, generator)
    return text[: old.start()] + new[0] + text[old.end() :]


def _lines(text: str, generator: np.random.Generator) -> str:
    lines = text.split("\n")
    one, other = (int(generator.integers(len(lines))) for _ in range(2))
    match int(generator.integers(3)):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


_TEXTS = (_other_token, _other_number, _other_number, _other_shape, _lines)


def damaged_json(data: bytes, generator: np.random.Generator) -> bytes:
    """JSON with one to three of its values changed, dropped or repeated."""
    plain = json.loads(data)
    for _ in range(int(generator.integers(1, 4))):
        places = list(_places(plain))
        holder, key = onnx_bytes.pick(places, generator)
        value = holder[key]
        match int(generator.integers(5)):
            case 0 if isinstance(holder, list):
                holder.insert(key, value)
            case 1 if len(holder) > 1:
                del holder[key]
            case 2:
                other, place = onnx_bytes.pick(places, generator)
                holder[key] = json.loads(json.dumps(other[place]))
            case _ if isinstance(value, int) and not isinstance(value, bool):
                holder[key] = onnx_bytes.pick(ABSURD, generator)
            case _:
                holder[key] = onnx_bytes.pick(
                    (None, True, -1, 2**70, "", "x" * 300, [], {}, 1e308), generator
                )
    return json.dumps(plain).encode()


def _places(plain: Any) -> Any:
    """All values in lists and objects, as pairs of container and key."""
    pending = [plain]
    while pending:
        held = pending.pop()
        for key in list(held) if isinstance(held, dict) else range(len(held)):
            yield held, key
            if isinstance(held[key], dict | list):
                pending.append(held[key])
