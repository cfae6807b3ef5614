"""The option ``crash_dir``: a crash in a kernel writes a folder that reproduces the run.

The package is written when the model is made, and all texts before each run. The signal handler only makes a
hard link to the package, and writes the inputs as they are in memory (``runtime/native/crash_folder.c``).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from graphwright import _native
from graphwright.config import Options, to_environment, variable
from graphwright.executable.specs import TensorSpec
from graphwright.ir.arrays import Array, np
from graphwright.log import warn_once
from graphwright.package.package import Entry, Package
from graphwright.package.write import write_package
from graphwright.records import dataclass, replace
from graphwright.runtime.executor import Executor, ProgramPlan, Shapes
from graphwright.support.escaping import identifier, terminal

MODELS: Final = "models"
"""The folder of the packages, inside ``crash_dir``."""
SCRIPT: Final = "repro.py"
_COMPILED: Final = ("numerics", "precision", "weights", "opt_level", "fusion_rules", "memory_budget")
"""Compile options that are stored in a package; the script sets them, as it may compile a reduced model."""
_ADVICE: Final = """
In this folder:
  run it again          python repro.py
  make it smaller       graphwright debug reduce MODEL.onnx {flags} \\
                          --when "python repro.py {{}} {{feeds}}" -o small.onnx
  a kernel before it    graphwright debug bisect model.om {flags}
MODEL.onnx is the model that model.om was compiled from.
Use bisect if the run does not crash again, or crashes elsewhere: an earlier kernel may write wrong values.
"""
_SCRIPT: Final = '''\
"""Runs the model that crashed again, on the same inputs.

    python repro.py                     the model and the inputs of this folder
    python repro.py MODEL FEEDS.npz     another model, such as a part of this one, on inputs by name

This executes the kernels in model.om: run it only if you trust the folder.
"""

import os
import sys
from pathlib import Path

os.environ.pop("GRAPHWRIGHT_CRASH_DIR", None)
os.environ.update({options})

import numpy as np

import graphwright as gw

FOLDER = Path(__file__).resolve().parent
ENTRY = {entry}
INPUTS = {inputs}
STATES = {states}  # their values before the run
MISSING = {missing}  # inputs that are not arrays, which a crash cannot write: add their values to the feeds


def typed(array, spec):
    """Restores dtypes that .npy files lack: they come back as raw bytes, and strings with a fixed width."""
    if array.dtype.kind == "V":
        return array.view(spec.dtype.numpy)
    return array.astype(object) if array.dtype.kind in "SU" else array


def read(files):
    return {{name: np.load(FOLDER / file) for name, file in files.items()}}


if len(sys.argv) > 1:
    model, feeds, states = gw.compile(sys.argv[1]), dict(np.load(sys.argv[2])), {{}}
else:
    model = gw.load(FOLDER / "model.om", trust=True).entries[ENTRY]
    feeds, states = read(INPUTS), read(STATES)
specs = {{spec.name: spec for spec in (*model.inputs, *model.entry.states)}}
if lacking := [name for name in MISSING if name not in feeds and name in specs]:
    sys.exit(f"add values for {{lacking}}: see MISSING in this script")
if states:
    model.reset({{name: typed(array, specs[name]) for name, array in states.items()}})
model.run({{name: typed(array, specs[name]) for name, array in feeds.items() if name in specs}})
print("the run completed without a crash")
'''


@dataclass(frozen=True)
class CrashFolders:
    """Where crashes of a model write their folders, and the package that these contain."""

    folder: Path
    model: str
    """The path of the package, relative to ``folder``."""


def prepared(package: Package, key: bytes | None, options: Options) -> CrashFolders | None:
    """Writes the package to the folder of the option; warns and returns None if that fails."""
    assert options.crash_dir is not None
    folder = Path(os.path.abspath(options.crash_dir))
    try:
        (folder / MODELS).mkdir(mode=0o700, parents=True, exist_ok=True)
        return CrashFolders(folder, f"{MODELS}/{_written(package, key, folder / MODELS)}")
    except OSError as error:
        reason = error.strerror or str(error)
        warn_once(f"crash_dir {folder}", "crashes cannot be saved in %s: %s", terminal(str(folder)), reason)
        return None


def _written(package: Package, key: bytes | None, folder: Path) -> str:
    """Writes the package to ``folder``; returns the name of the file, which is the hash of its content."""
    temporary = folder / f".{os.urandom(8).hex()}"
    try:
        write_package(package, temporary, key)
        with open(temporary, "rb") as file:
            name = f"{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}.om"
        if not (folder / name).exists():
            os.replace(temporary, folder / name)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return name


class RecordingExecutor(Executor):
    """Runs ``executor``, the entry ``name`` of a package. A crash in a kernel writes the inputs of
    the run.
    """

    def __init__(
        self, executor: Executor, folders: CrashFolders, package: Package, name: str, options: Options
    ) -> None:
        self._executor, self._folders = executor, folders
        entry = package.entries[name]
        self._files = [_file_name(k, spec) for k, spec in enumerate(entry.inputs)]
        states = {spec.name for spec in entry.states}
        self._is_state = [spec.name in states for spec in entry.inputs]
        self._script = _script(package, name, self._files, options).encode()
        fed = _named(entry, self._files, is_state=False)
        flags = [
            *(f"-i {_quoted(f'{name}={file}')}" for name, file in fed.items()),
            *(f"--plugin {_quoted(each)}" for each in _whole_paths(options.plugins)),
        ]
        self._advice = f"{_versions()}{_ADVICE.format(flags=' '.join(flags))}"

    def run(
        self, arrays: Sequence[Array], outputs: Sequence[Array | None] | None, threads: int
    ) -> list[Array]:
        with self._recorded(arrays):
            return self._executor.run(arrays, outputs, threads)

    def plans(self, shapes: Shapes | None, threads: int) -> list[ProgramPlan]:
        return self._executor.plans(shapes, threads)

    def trim(self) -> int:
        return self._executor.trim()

    def stats(self) -> dict[str, int]:
        return self._executor.stats()

    @contextmanager
    def _recorded(self, arrays: Sequence[Any]) -> Iterator[None]:
        files: list[tuple[str, bytes, Any]] = [(SCRIPT, self._script, b"")]
        for name, array, is_state in zip(self._files, arrays, self._is_state, strict=True):
            if isinstance(array, np.ndarray):  # not a container
                files.append((name, *_as_npy(array, copy=is_state)))
        with _native.CrashRun(str(self._folders.folder), self._folders.model, self._advice, files):
            yield


def _as_npy(array: Array, *, copy: bool) -> tuple[bytes, Any]:
    """The header of a ``.npy`` file of ``array``, and its elements as bytes: a view, or a copy of them."""
    if array.dtype == object:
        array = array.astype(np.str_)
    elif copy:
        array = array.copy()
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return head.getvalue(), array.reshape(-1).view(np.uint8)


def _quoted(text: str) -> str:
    """``text`` as a word of a command line."""
    return shlex.quote(terminal(text))


def _file_name(number: int, spec: TensorSpec) -> str:
    return f"input_{number}_{identifier(spec.name, 'input')}.npy"


def _named(entry: Entry, files: Sequence[str], *, is_state: bool) -> dict[str, str]:
    """The files of all array inputs by name: of the states, or of the others."""
    states = {spec.name for spec in entry.states}
    return {
        spec.name: file
        for spec, file in zip(entry.inputs, files, strict=True)
        if spec.dtype.element is None and (spec.name in states) == is_state
    }


def _script(package: Package, name: str, files: Sequence[str], options: Options) -> str:
    entry = package.entries[name]
    return _SCRIPT.format(
        options=_python(_environment(package.options, options)),
        entry=repr(name),
        inputs=_python(_named(entry, files, is_state=False)),
        states=_python(_named(entry, files, is_state=True)),
        missing=_python([spec.name for spec in entry.inputs if spec.dtype.element is not None]),
    )


def _python(value: Any) -> str:
    """``value``, made of strings only, as Python source in ASCII."""
    return json.dumps(value, indent=4)


def _environment(compiled: Mapping[str, str], options: Options) -> dict[str, str]:
    """Environment variables that set the options of the compilation and of the run."""
    here = replace(
        options,
        crash_dir=None,
        debug=True,
        plugins=_whole_paths(options.plugins),
        tune=0,
        trust=False,
        keys=(),
    )
    known = {variable(name): compiled[name] for name in _COMPILED if name in compiled}
    return known | to_environment(here)


def _whole_paths(plugins: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.abspath(each) if os.path.isfile(each) else each for each in plugins)


def _versions() -> str:
    version = importlib.metadata.version("graphwright")
    return f"  versions: graphwright {version}, Python {platform.python_version()}, {platform.platform()}\n"
