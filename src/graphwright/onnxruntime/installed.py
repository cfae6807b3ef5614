"""The Python parts of an installed ONNX Runtime package, run on graphwright's sessions.

They quantize, convert and optimize models. Their files say ``import onnxruntime``, so they are used only
where that name is graphwright's.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from graphwright.onnxruntime.refused import missing_part

_PREFIX = "graphwright."
_OURS = Path(__file__).parent
REPLACEMENT = _OURS / "replacement"
"""The folder whose module ``onnxruntime`` imports graphwright; before the installed package in ``sys.path``
of child processes.
"""


def load(name: str, namespace: dict[str, Any]) -> None:
    """Makes the module ``onnxruntime.PART`` that of the installed package: its files, and its submodules.
    ``graphwright.onnxruntime.PART``, which ``from onnxruntime import PART`` imports, is then the same module.

    Raises ModuleNotFoundError if the package is not installed, lacks the part, or is what
    ``import onnxruntime`` imports.
    """
    folder = _folder(name)
    if folder is None:
        raise missing_part(name.rpartition("onnxruntime.")[2])
    if name.startswith(_PREFIX):
        sys.modules[name] = import_module(name.removeprefix(_PREFIX))
        return
    namespace["__path__"] = [str(folder), *namespace["__path__"]]
    namespace["__file__"] = str(folder / "__init__.py")
    code = compile((folder / "__init__.py").read_bytes(), namespace["__file__"], "exec", dont_inherit=True)
    exec(code, namespace)  # the package that the user installed


def extend(name: str, path: list[str]) -> None:
    """Appends the folder of the part in the installed package, if there is one, to the part's ``path`` here:
    submodules that graphwright lacks come from there.
    """
    folder = _folder(name)
    if folder is not None:
        path.append(str(folder))


def available(name: str) -> bool:
    """Whether :func:`load` finds the files of the module."""
    return _folder(name) is not None


def _folder(name: str) -> Path | None:
    """The folder of the module in the installed package, if ``import onnxruntime`` imports graphwright."""
    package, _, part = name.removeprefix(_PREFIX).rpartition(".")
    if package != "onnxruntime" or sys.modules.get(package) is not sys.modules["graphwright.onnxruntime"]:
        return None
    elsewhere = [place for place in sys.path if Path(place) != REPLACEMENT]
    spec = PathFinder.find_spec(package, elsewhere)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / part
        if Path(place) != _OURS and (folder / "__init__.py").is_file():
            return folder
    return None
