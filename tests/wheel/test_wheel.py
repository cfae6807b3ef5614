"""The wheel that ``make wheel`` builds: its content, and that it runs without a compiler."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.c_api.build import EXAMPLES
from tests.c_api.models import FEATURES, classified, classifier, rows

pytestmark = pytest.mark.wheel
ROOT = Path(__file__).parents[2]
COUNT = 5
RUN = """
import sys
import numpy as np
import graphwright as gw
from graphwright.targets.cpu.toolchain import find_toolchain

try:
    find_toolchain(gw.CompileOptions())
except gw.GraphwrightError:
    print("no compiler")
model = gw.load(sys.argv[1], trust=True)
np.save(sys.argv[3], model(np.load(sys.argv[2]))[0])
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    made = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    assert made, "make wheel"
    return made[-1]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    subprocess.run([*install, str(wheel)], check=True)
    return folder


def run(environment: Path, folder: Path, *arguments: object) -> str:
    """Python of the environment, in which no other program is found."""
    settings = {"PATH": str(environment / "bin"), "HOME": str(folder)}
    command = [str(environment / "bin" / "python"), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_name_of_the_wheel_has_the_manylinux_tag(wheel: Path) -> None:
    assert re.fullmatch(r"graphwright-[\d.]+-cp3\d+-cp3\d+-manylinux_2_\d+_x86_64.*\.whl", wheel.name)


def test_what_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    libraries = {name.rpartition("/")[2] for name in names if name.endswith(".so")}
    assert {"libgraphwright.so", "libgraphwright_kernels_v3.so", "libgraphwright_kernels_v4.so"} <= libraries
    assert {"libgraphwright_onnxruntime.so", "libgraphwright_standalone.so"} <= libraries
    assert "graphwright/c_api/include/graphwright.h" in names
    folders = ("graphwright/c_api/", "graphwright/runtime/native/")
    own = [name for name in names if name.startswith(folders) and name.endswith((".c", ".h", ".cpp", ".hpp"))]
    assert own == ["graphwright/c_api/include/graphwright.h"]


def test_a_package_runs_without_a_compiler(environment: Path, tmp_path: Path) -> None:
    classifier().compile().save(tmp_path / "model.om")
    (tmp_path / "run.py").write_text(RUN)
    x = rows(COUNT)
    np.save(tmp_path / "x.npy", x)
    told = run(environment, tmp_path, "run.py", "model.om", "x.npy", "y.npy")
    assert told.strip() == "no compiler"
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), classified(x)[0], rtol=1e-5, atol=1e-7)


def test_programs_in_c_are_built_against_it(environment: Path, tmp_path: Path) -> None:
    """The compiler is this machine's; an environment variable has the folder of the library."""
    flags = run(environment, tmp_path, "-m", "graphwright.c_api", "--cflags", "--libs").split()
    assert str(environment) in flags[0]
    program = tmp_path / "classify"
    subprocess.run(["gcc", "-O2", str(EXAMPLES / "classify.c"), *flags, "-o", str(program)], check=True)
    rows(COUNT).tofile(tmp_path / "x.bin")
    classifier().compile().save(tmp_path / "model.om")
    command = [str(program), str(tmp_path / "model.om"), str(tmp_path / "x.bin"), f"{COUNT},{FEATURES}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[0]) == classified(rows(COUNT))[1][0]
