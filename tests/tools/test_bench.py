"""The harness that sets engines side by side: ratios, workers, their cores and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.tools.machine import usable_cores
from graphwright.tools.measuring import bench
from graphwright.tools.measuring.bench import Measured, Ratio, measure, paired_ratio, ratio
from graphwright.tools.measuring.engines import ENGINES, ONNX_PEERS, EngineError, is_installed
from tests.tools.support import write_model

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """A model as each engine reads it, and its feeds."""
    source = write_model(tmp_path / "model.onnx")
    gw.compile(source).save(tmp_path / "model.om")
    return {"graphwright": (tmp_path / "model.om", {"x": X}), "onnxruntime": (source, {"x": X})}


def test_a_paired_ratio_has_the_quartiles_of_the_rounds() -> None:
    assert paired_ratio([2, 4, 6, 8, 10], [2, 2, 2, 2, 2]) == Ratio(3, 2, 4)
    peer = Measured("peer", "", 0, 0, rounds=[[10, 30, 20], [80]])
    ours = Measured("ours", "", 0, 0, rounds=[[10], [10, 10]])
    assert ratio(peer, ours) == Ratio(5, 3.5, 6.5)


def test_all_engines_run_all_rounds(files: dict[str, tuple[Path, dict[str, Any]]]) -> None:
    done: list[int] = []
    results = measure(files, threads=1, rounds=3, round_seconds=0.001, progress=done.append)
    assert done == [1, 2, 3]
    assert [len(measured.rounds) for measured in results.values()] == [3, 3]
    assert results["onnxruntime"].version


def test_worker_processes_run_on_the_last_cores(
    files: dict[str, tuple[Path, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []
    popen = subprocess.Popen

    class Watched(popen):  # type: ignore[misc, valid-type]
        def kill(self) -> None:
            seen.append(os.sched_getaffinity(self.pid))
            super().kill()

    monkeypatch.setattr(bench.subprocess, "Popen", Watched)
    measure(files, threads=1, rounds=1, round_seconds=0.001)
    assert seen == [{max(os.sched_getaffinity(0))}] * 2
    assert usable_cores(10_000) == sorted(os.sched_getaffinity(0))


def test_a_peer_that_cannot_run_it_is_left_out_or_an_error(
    files: dict[str, tuple[Path, dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    files["onnxruntime"] = (tmp_path / "broken.onnx", {"x": X})
    with pytest.raises(EngineError, match="onnxruntime cannot run it"):
        measure(files, threads=1, rounds=1, round_seconds=0.001)
    refused: dict[str, str] = {}
    results = measure(files, threads=1, rounds=1, round_seconds=0.001, refused=refused)
    assert list(results) == ["graphwright"]
    assert refused.keys() == {"onnxruntime"}


def test_a_stopped_worker_ends_with_its_parent() -> None:
    script = (
        "import signal, subprocess, sys, time\n"
        "code = 'from graphwright.tools.machine import die_with_parent; import time; die_with_parent();'\n"
        "code += 'print(1, flush=True); time.sleep(60)'\n"
        "worker = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
        "worker.stdout.readline()\n"
        "worker.send_signal(signal.SIGSTOP)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 10
    while is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.01)
    alive = is_alive(worker)
    if alive:
        os.kill(worker, signal.SIGKILL)
    assert not alive


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_inductor_runs_what_torch_export_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return (x @ torch.from_numpy(weights),)  # a product alone: Inductor generates no C++

    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    torch.export.save(torch.export.export(Model(), (torch.from_numpy(X),)), tmp_path / "model.pt2")
    script = (  # a process of its own: torch's settings are global
        "import sys, numpy, pathlib; from graphwright.tools.measuring.engines import start\n"
        "x = numpy.linspace(-1, 1, 8, dtype=numpy.float32).reshape(2, 4)\n"
        "run = start('inductor', pathlib.Path('model.pt2'), 1)\n"
        "numpy.save('y.npy', run({'x': x})['output_0'])\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), X @ weights, rtol=1e-5, atol=1e-6)


def test_engines_name_their_packages() -> None:
    assert ONNX_PEERS == ("onnxruntime", "openvino")
    assert {engine.suffix for engine in ENGINES.values()} == {".om", ".onnx", ".pt2"}
    assert is_installed("onnxruntime")
