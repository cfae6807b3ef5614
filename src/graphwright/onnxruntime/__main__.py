"""Runs a Python program that was written for ONNX Runtime, without a change in it::

    python -m graphwright.onnxruntime script.py ARGUMENTS
    python -m graphwright.onnxruntime -m MODULE ARGUMENTS
    python -m graphwright.onnxruntime "$(which COMMAND)" ARGUMENTS

``import onnxruntime`` imports graphwright in the program, and in the Python processes that it starts.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from graphwright.onnxruntime.install import install
from graphwright.onnxruntime.installed import REPLACEMENT

_USAGE = """usage: python -m graphwright.onnxruntime SCRIPT ARGUMENTS
       python -m graphwright.onnxruntime -m MODULE ARGUMENTS
runs a Python program in which "import onnxruntime" imports graphwright"""


def main(arguments: list[str]) -> None:
    """Runs the program as ``__main__``. Exits with 2 if ``arguments`` name none."""
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module:]
    if not program or program[0].startswith("-"):
        sys.exit(_refused(f"{program[0]!r} is not a script" if program else "there is no program to run"))
    if not is_module and not os.path.exists(program[0]):
        sys.exit(_refused(f"there is no file {program[0]!r}"))
    install()
    _install_in_children()
    sys.argv = program
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")


def _refused(why: str) -> int:
    print(f"{_USAGE}\nerror: {why}", file=sys.stderr)
    return 2


def _install_in_children() -> None:
    """Puts the folder of the replacement first where child processes look for modules: those that
    multiprocessing spawns have this ``sys.path``, others read PYTHONPATH.
    """
    sys.path.insert(1, str(REPLACEMENT))
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPLACEMENT), *([others] if others else [])])


if __name__ == "__main__":
    main(sys.argv[1:])
