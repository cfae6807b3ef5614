"""``python -m graphwright.onnxruntime`` runs programs that import onnxruntime, and that start others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

SCRIPT = """
import multiprocessing, pickle, subprocess, sys

import helper
import onnxruntime


class Local:
    pass


def engine(queue):
    import onnxruntime.capi.onnxruntime_pybind11_state
    queue.put(onnxruntime.__name__)


if __name__ == "__main__":
    print(onnxruntime.__name__, helper.__name__, sys.argv[1:])
    print(type(pickle.loads(pickle.dumps(Local()))).__module__)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=engine, args=(queue,))
    child.start()
    print(queue.get(timeout=100))
    child.join()
    command = "import onnxruntime; import onnxruntime.quantization; print(onnxruntime.__name__)"
    print(subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout)
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphwright.onnxruntime", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=env, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_and_its_children_import_graphwright(script: Path) -> None:
    done = run(str(script), "-v", "--number", "3")
    ours = "graphwright.onnxruntime"
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == [
        f"{ours} helper ['-v', '--number', '3']",
        "__main__",
        ours,
        ours,
    ]


def test_modules_of_the_installed_package_run_as_commands() -> None:
    done = run("-m", "onnxruntime.tools.symbolic_shape_infer", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: symbolic_shape_infer.py")


def test_a_module_of_the_working_directory_runs(script: Path) -> None:
    command = [sys.executable, "-m", "graphwright.onnxruntime", "-m", "script", "x"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, cwd=script.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("graphwright.onnxruntime helper ['x']\n__main__\n")


def test_children_keep_their_pythonpath(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import os; print(os.environ['PYTHONPATH'].partition(os.pathsep)[2])")
    done = run(str(path), PYTHONPATH=os.pathsep.join(["/one", "/two"]))
    assert done.stdout == os.pathsep.join(["/one", "/two"]) + "\n"


def test_the_exit_status_is_that_of_the_script(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("raise SystemExit(7)")
    assert run(str(path)).returncode == 7


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "there is no program to run"),
        (["-m"], "there is no program to run"),
        (["--fast", "script.py"], "'--fast' is not a script"),
        (["nowhere.py"], "there is no file 'nowhere.py'"),
    ],
)
def test_a_missing_program_is_an_error(arguments: list[str], error: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m graphwright.onnxruntime SCRIPT")
    assert done.stderr.endswith(f"error: {error}\n")


def test_help_names_both_forms() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "-m MODULE" in done.stdout and "SCRIPT ARGUMENTS" in done.stdout


def test_onnxruntime_itself_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import onnxruntime, sys\nprint([str(m.__file__) for m in list(sys.modules.values())"
        " if hasattr(m, '__file__')])"
    )
    native = str(Path(onnxruntime.__file__).parent / "capi")
    assert native not in run(str(path)).stdout
