"""The folder that a crash writes for the option ``crash_dir``: it holds the model, the inputs and a script
that crashes in the same task. Each crash is one of a process of its own.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.runtime.crashes.faults import FAULTS, PLUGIN, environment

BEGIN = """
import os, resource, shutil, sys, threading
import numpy as np
import onnx
import graphwright as gw

def compiled(text, **options):
    return gw.compile(onnx.parser.parse_model(text), options={"plugins": ("planted.py",), **options})

HEAD = '<ir_version: 8, opset_import: ["" : 17, "test" : 1]> '
model = compiled(HEAD + '''g (float[n, 5] x, int64[k] unused) => (float[n, 5] y, int64[k] z) {
    [sum] s = Add (x, x)
    [halves] h = test.Planted (x)
    [last] y = Sub (s, h)
    z = Add (unused, unused)
}''', threads=2)
x = np.arange(100, 115, dtype=np.float32).reshape(3, 5)
bad = np.where(x == 107, np.float32(7), x)
unused = np.array([3, 1], np.int64)
"""


def run(
    folder: Path, text: str, begin: str = BEGIN, crash_dir: str = "crashes"
) -> subprocess.CompletedProcess[str]:
    (folder / "planted.py").write_text(PLUGIN.replace("FAULT", FAULTS["SIGSEGV"]))
    return python(folder, "-c", begin + text, GRAPHWRIGHT_CRASH_DIR=crash_dir)


def python(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment(folder), **variables},
        timeout=120,
    )


def written(folder: Path) -> list[Path]:
    """The folders of crashes; nothing else is there but the models."""
    found = sorted(path for path in (folder / "crashes").iterdir() if path.name != "models")
    assert all(re.fullmatch(r"crash-\d+-\d+", path.name) for path in found), found
    return found


def what(stderr: str) -> list[str]:
    """The lines of a message that another run of the same inputs repeats."""
    kinds = ("task:", "kernel:", "nodes:", "shapes:", "operands:", "arguments:")
    return [line for line in stderr.splitlines() if line.strip().startswith(kinds)]


def test_the_script_crashes_in_the_same_task_on_the_same_inputs(tmp_path: Path) -> None:
    done = run(tmp_path, "model(x, unused); print('running', flush=True); model(bad, unused)")
    assert (done.stdout, done.returncode) == ("running\n", -signal.SIGSEGV), done.stderr
    (folder,) = written(tmp_path)
    assert f"graphwright: wrote {folder}: " in done.stderr
    assert {path.name for path in folder.iterdir()} == {
        "input_0_x.npy",
        "input_1_unused.npy",
        "model.om",
        "report.txt",
        "repro.py",
    }
    x = np.load(folder / "input_0_x.npy")
    assert (x.dtype, x.shape, x[1, 2], x[2, 4]) == (np.float32, (3, 5), 7, 114)
    np.testing.assert_array_equal(np.load(folder / "input_1_unused.npy"), np.array([3, 1], np.int64))
    assert "  shapes: (x: f32[3, 5], unused: i64[2]) -> (y: f32[3, 5], z: i64[2])\n" in done.stderr
    assert "  operands: x (read, 60 bytes), h (written, 60 bytes)\n" in done.stderr
    report = (folder / "report.txt").read_text()
    assert what(done.stderr) and what(report) == what(done.stderr)
    assert "graphwright debug reduce MODEL.onnx" in report and "graphwright debug bisect model.om" in report
    again = python(tmp_path, str(folder / "repro.py"), GRAPHWRIGHT_CRASH_DIR="crashes")
    assert again.returncode == -signal.SIGSEGV, again.stderr
    assert what(again.stderr) == what(done.stderr)
    assert written(tmp_path) == [folder]  # the script writes none of its own


def test_a_folder_can_be_moved_and_a_part_is_run_by_its_script(tmp_path: Path) -> None:
    done = run(tmp_path, "model(bad, unused)")
    (folder,) = written(tmp_path)
    moved = folder.rename(tmp_path / "elsewhere")
    part = """
import onnx
import numpy as np
text = '''<ir_version: 8, opset_import: ["" : 17, "test" : 1]>
g (float[2, 2] a) => (float[2, 2] b) { [part] b = test.Planted (a) }'''
onnx.save(onnx.parser.parse_model(text), "part.onnx")
np.savez("good.npz", a=np.zeros((2, 2), np.float32))
np.savez("bad.npz", a=np.full((2, 2), 7, np.float32))
"""
    assert python(tmp_path, "-c", part).returncode == 0
    script = str(moved / "repro.py")
    assert what(python(tmp_path, script).stderr) == what(done.stderr)
    good = python(tmp_path, script, "part.onnx", "good.npz")
    assert (good.returncode, good.stdout) == (0, "the run completed without a crash\n"), good.stderr
    bad = python(tmp_path, script, "part.onnx", "bad.npz")
    assert bad.returncode == -signal.SIGSEGV
    assert "nodes: part" in bad.stderr


def test_reduce_finds_the_node_that_crashes(tmp_path: Path) -> None:
    graph = """<ir_version: 8, opset_import: ["" : 17, "test" : 1]>
g (float[3, 5] x) => (float[3, 5] y) {
    [sum] s = Abs (x)
    [halves] y = test.Planted (s)
}"""
    onnx.save(onnx.parser.parse_model(graph), tmp_path / "whole.onnx")
    run(tmp_path, "gw.compile('whole.onnx', options={'plugins': ('planted.py',)})(np.where(x == 107, -7, x))")
    (folder,) = written(tmp_path)
    when = f"{sys.executable} {folder / 'repro.py'} {{}} {{feeds}}"
    given = ("-i", f"x={folder / 'input_0_x.npy'}", "--plugin", "planted.py", "-o", "small.onnx")
    done = python(tmp_path, "-m", "graphwright", "debug", "reduce", "whole.onnx", "--when", when, *given)
    assert done.returncode == 0, done.stderr
    assert [node.name for node in onnx.load(tmp_path / "small.onnx").graph.node] == ["halves"]


def test_threads_that_fault_at_once_write_one_folder(tmp_path: Path) -> None:
    text = """
def crash():
    barrier.wait()
    model(bad, unused)

model(x, unused)
barrier = threading.Barrier(4)
threads = [threading.Thread(target=crash) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = run(tmp_path, text)
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("SIGSEGV in a kernel") == done.stderr.count("graphwright: wrote") == 1
    (folder,) = written(tmp_path)
    assert np.load(folder / "input_0_x.npy")[1, 2] == 7


def test_forked_children_write_folders_of_their_own(tmp_path: Path) -> None:
    text = """
import multiprocessing
def crash(): model(bad, unused)
model(x, unused)
fork = multiprocessing.get_context("fork")
children = [fork.Process(target=crash) for _ in range(3)]
for child in children: child.start()
for child in children: child.join()
print(*(child.exitcode for child in children))
np.testing.assert_array_equal(model(x, unused)[0], x)
"""
    done = run(tmp_path, text)
    assert (done.returncode, done.stdout) == (0, "-11 -11 -11\n"), done.stderr
    assert len(written(tmp_path)) == 3


def test_states_are_those_before_the_run(tmp_path: Path) -> None:
    text = """
graph = '''g (float[2, 3] x, float[2, 3] past) => (float[2, 3] y, float[2, 3] next) {
    next = Add (past, x)
    [halves] y = test.Planted (next)
}'''
proto = onnx.parser.parse_model(HEAD + graph)
model = gw.compile(proto, states={"past": "next"}, options={"plugins": ("planted.py",)})
for _ in range(4): model(np.full((2, 3), 2, np.float32))
model(np.full((2, 3), -1, np.float32))
"""
    done = run(tmp_path, text)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    (folder,) = written(tmp_path)
    states = {path.name: np.load(path).tolist() for path in folder.glob("input_*")}
    assert states == {"input_0_x.npy": [[-1] * 3] * 2, "input_1_past.npy": [[8] * 3] * 2}
    again = python(tmp_path, str(folder / "repro.py"))
    assert again.returncode == -signal.SIGSEGV
    assert what(again.stderr) == what(done.stderr)


def test_the_folder_has_the_inputs_of_a_model_of_several_programs(tmp_path: Path) -> None:
    text = """
model = compiled(HEAD + '''g (float[n] x) => (float[m, 1] y) {
    where = NonZero (x)
    rows = Transpose (where)
    found = Cast <to = 1> (rows)
    [halves] y = test.Planted (found)
}''')
x = np.zeros(9, np.float32)
x[[2, 5]] = 1
model(x)
x[7] = 1
model(x)
"""
    done = run(tmp_path, text)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    (folder,) = written(tmp_path)
    np.testing.assert_array_equal(np.load(folder / "input_0_x.npy"), [0, 0, 1, 0, 0, 1, 0, 1, 0])
    assert what(python(tmp_path, str(folder / "repro.py")).stderr) == what(done.stderr)


FAILURES = {
    "the folder is gone": ("shutil.rmtree('crashes')", "no such file or folder"),
    "the model is gone": ("shutil.rmtree('crashes/models')", "no such file or folder, at model.om"),
    "no space is left": ("resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))", "file too large"),
}
"""A limit of the size of files stands for a full disk: the same call fails."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, name: str) -> None:
    before, reason = FAILURES[name]
    done = run(tmp_path, f"{before}; model(bad, unused)")
    assert done.returncode == -signal.SIGSEGV
    (line,) = (line for line in done.stderr.splitlines() if "crash folder" in line)
    assert line.startswith(f"graphwright: no crash folder in {tmp_path / 'crashes'}: {reason}")
    assert "SIGSEGV in a kernel" in done.stderr
    if name != "the folder is gone":
        assert written(tmp_path) == []


def test_an_impossible_crash_dir_is_a_warning(tmp_path: Path) -> None:
    text = "print(model(x, unused)[0][1, 2], flush=True); model(bad, unused)"
    done = run(tmp_path, text, crash_dir="/dev/null/crashes")
    assert (done.stdout, done.returncode) == ("107.0\n", -signal.SIGSEGV)
    assert done.stderr.count("crashes cannot be saved in /dev/null/crashes: Not a directory") == 1
    assert "SIGSEGV in a kernel" in done.stderr


def test_memory_that_cannot_be_read_is_zero_in_the_file(tmp_path: Path) -> None:
    text = """
import os
import numpy as np
import onnx
import graphwright as gw
model = gw.compile(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 1024] x) => (float[n, 1024] y) { y = Sigmoid (x) }'''), options={"threads": 1})
np.ones((64, 1024), np.float32).tofile("x.bin")
x = np.memmap("x.bin", np.float32, "r", shape=(64, 1024))
os.truncate("x.bin", 8192)
model(x)
"""
    done = run(tmp_path, text, begin="")
    assert done.returncode == -signal.SIGBUS, done.stderr
    (folder,) = written(tmp_path)
    expected = np.zeros((64, 1024), np.float32)
    expected[:2] = 1
    np.testing.assert_array_equal(np.load(folder / "input_0_x.npy"), expected)
    assert "not readable: a part of input_0_x.npy, which is 0 there" in (folder / "report.txt").read_text()


def test_a_model_is_kept_once_and_without_the_option_nothing_is(tmp_path: Path) -> None:
    text = """
again = compiled(HEAD + 'g (float[2] x) => (float[2] y) { y = Abs (x) }')
again.save("abs.om")
for _ in range(3): gw.load("abs.om")
print(len(os.listdir("crashes/models")))
plain = gw.load("abs.om", options=gw.CompileOptions())
assert plain.recording_executor is plain.executor
"""
    assert run(tmp_path, text).stdout == "2\n"
