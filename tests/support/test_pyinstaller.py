"""The hook of PyInstaller lists what an application needs: PyInstaller sees no imports by name."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2] / "src" / "graphwright"
OPTIONAL = {"onnxruntime", "openvino", "torch", "torch._inductor.config", "PIL.Image"}
"""Modules that are not bundled, because an application that needs them imports them."""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the hook, with PyInstaller replaced by functions that list modules and files."""

    def submodules(package: str, accepts: Callable[[str], bool]) -> list[str]:
        files = [file.relative_to(ROOT.parent).with_suffix("") for file in ROOT.rglob("*.py")]
        names = [".".join(file.parts).removesuffix(".__init__") for file in files]
        return [name for name in names if name.startswith(package) and accepts(name)]

    hooks = ModuleType("PyInstaller.utils.hooks")
    vars(hooks).update(
        collect_submodules=submodules,
        collect_data_files=lambda package: [(package, "data")],
        collect_dynamic_libs=lambda package: [(package, "libraries")],
        copy_metadata=lambda package: [(package, "metadata")],
    )
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, hooks.__name__, hooks)
    (entry,) = [each for each in entry_points(group="pyinstaller40") if "graphwright" in each.value]
    (folder,) = entry.load()()
    return runpy.run_path(str(Path(folder) / "hook-graphwright.py"))


def test_modules_imported_by_name_are_listed(hook: dict[str, Any]) -> None:
    texts = [path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'import_module\("([\w.]+)"\)', text)}
    assert {"difflib", "ml_dtypes"} <= named
    assert named - OPTIONAL <= set(hook["hiddenimports"])


def test_modules_found_by_folder_are_listed_but_no_pytorch(hook: dict[str, Any]) -> None:
    listed = set(hook["hiddenimports"])
    assert {"graphwright.ops.core.binary", "graphwright.targets.cpu.target"} <= listed
    assert not any(name.startswith(("graphwright.torch", "graphwright.frontends.torch")) for name in listed)
    assert {kind for _, kind in hook["datas"] + hook["binaries"]} == {"data", "libraries", "metadata"}
