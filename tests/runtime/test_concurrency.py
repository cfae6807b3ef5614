"""Several threads, forked processes, interrupts, and an interpreter that ends in the middle of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from tests.onnx_models import onnx_model
from tests.package.models import Classifier, rank_by_size

THREADS = 6


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_concurrent_runs_equal_serial_ones(classifier: Classifier, options: Options, threads: int) -> None:
    model = gw.compile(classifier.onnx(), options=replace(options, threads=threads))
    random = np.random.default_rng(0)
    feeds = [random.standard_normal((batch % 4, 3, 12, 12)).astype(np.float32) for batch in range(40)]
    serial = [model(x)[0] for x in feeds]
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(3):
            results = list(pool.map(lambda x: model(x)[0], feeds))
            assert all(np.array_equal(a, b) for a, b in zip(results, serial, strict=True))
    assert all(not np.shares_memory(a, b) for a, b in zip(results, serial, strict=True))


def test_concurrent_runs_of_several_models(
    package_path: Path, options: Options, classifier: Classifier
) -> None:
    models = [
        gw.load(package_path, options=replace(options, threads=k % 3), mmap=k % 2 == 0) for k in range(4)
    ]
    expected = models[0](classifier.x)[0]
    with ThreadPoolExecutor(THREADS) as pool:
        for y in pool.map(lambda k: models[k % 4](classifier.x)[0], range(100)):
            assert np.array_equal(y, expected)


def test_concurrent_host_calls(options: Options) -> None:
    """Half of the work is in Python, under the GIL."""
    nodes = [
        helper.make_node("Einsum", ["x"], ["d"], equation="iij->ij"),
        helper.make_node("Exp", ["d"], ["y"]),
    ]
    spec = (TensorProto.FLOAT, ["N", "N", "M"])
    model = gw.compile(
        onnx_model(nodes, {"x": spec}, {"y": (TensorProto.FLOAT, ["N", "M"])}), options=options
    )
    feeds = [
        np.random.default_rng(k).standard_normal((k % 5, k % 5, 7)).astype(np.float32) for k in range(60)
    ]
    serial = [model(x)[0] for x in feeds]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(lambda x: model(x)[0], feeds))
    assert all(np.array_equal(a, b) for a, b in zip(results, serial, strict=True))
    assert model.stats()["host_calls"] == 2 * len(feeds)


def test_concurrent_runs_compile_each_rank_once(options: Options) -> None:
    """There are more ranks than a package holds: variants are compiled while others run."""
    inputs = {"x": (TensorProto.FLOAT, None), "z": (TensorProto.FLOAT, None)}
    node = helper.make_node("MatMul", ["x", "z"], ["y"])
    model = gw.compile(onnx_model([node], inputs, {"y": (TensorProto.FLOAT, None)}), options=options)  # type: ignore[arg-type]  # no ranks
    feeds = [np.full((1, 1, 1 + k % 3, 2), k, np.float32)[(0,) * (k % 3)] for k in range(12)]
    weight = np.ones((2, 4), np.float32)
    with ThreadPoolExecutor(THREADS) as pool:
        for x, y in zip(feeds, pool.map(lambda x: model(x, weight)[0], feeds), strict=True):
            assert np.array_equal(y, x @ weight)
    assert model.stats()["cases"] == 3 and model.stats()["runs"] == len(feeds)


def test_subgraphs_of_unknown_rank_are_compiled_once_per_rank(options: Options) -> None:
    """Ranks follow from sizes, and several runs need them at once."""
    model = gw.compile(rank_by_size(), options=options)
    feeds = [np.ones((1 + k % 3, 2), np.float32) for k in range(12)]
    with ThreadPoolExecutor(THREADS) as pool:
        for x, y in zip(feeds, pool.map(lambda x: model(x)[0], feeds), strict=True):
            assert np.array_equal(y, x[0] if len(x) == 1 else x)
    assert model.stats()["runs"] == len(feeds)


def test_models_can_be_deleted_while_others_run(
    package_path: Path, options: Options, classifier: Classifier
) -> None:
    expected = gw.load(package_path, options=options)(classifier.x)[0]

    def load_and_run(_: int) -> bool:
        return np.array_equal(gw.load(package_path, options=options)(classifier.x)[0], expected)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(load_and_run, range(30)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_runs_what_its_parent_loaded(model: gw.Model, classifier: Classifier) -> None:
    """Servers load a model before they fork."""
    expected = model(classifier.x)[0]
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            same = all(np.array_equal(model(classifier.x)[0], expected) for _ in range(5))
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(model(classifier.x)[0], expected)


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
import graphwright as gw

model = gw.load(sys.argv[1], trust=True)
x = np.ones((400, 3, 12, 12), np.float32)
expected = model(x)[0]
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
interrupts = 0
for k in range(5):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            assert np.array_equal(model(x)[0], expected)
    except KeyboardInterrupt:
        interrupts += 1
assert np.array_equal(model(x)[0], expected)
print(interrupts)
"""

ENDS_WHILE_RUNNING = """
import sys, threading, time
import numpy as np
import graphwright as gw

model = gw.load(sys.argv[1], trust=True)
x = np.ones((400, 3, 12, 12), np.float32)

def run():
    while True:
        model(x)

for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.2)
print("ends")
"""


@pytest.mark.parametrize(
    "script, said", [(INTERRUPTED, "5"), (ENDS_WHILE_RUNNING, "ends")], ids=["ctrl-c", "exit"]
)
def test_processes_that_are_disturbed(package_path: Path, script: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(package_path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr


def test_interrupts_reach_only_the_main_thread(model: gw.Model, classifier: Classifier) -> None:
    """Worker threads do not handle signals: the application's handler runs, and the run is correct."""
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    try:
        expected = model(classifier.x)[0]
        for _ in range(20):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert np.array_equal(model(classifier.x)[0], expected)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(received) == 20 and threading.current_thread() is threading.main_thread()
