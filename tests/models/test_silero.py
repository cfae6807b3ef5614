"""silero_vad, from its file as shipped: If over the rate, LSTM, a state that each run hands to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from tests.models.support import distance, file_of, host_calls, session
from tests.tools.support import graphwright

CHUNKS = 20
RATES = {16000: 512, 8000: 256}
"""Samples of a chunk at each rate; an eighth more, the end of the chunk before, goes in front."""

_OFFLINE = """
import sys
import numpy as np
import graphwright as gw
model = gw.load(sys.argv[1])
for name in sys.argv[2:]:
    with np.load(name) as feeds:
        results = model.run(dict(feeds))
    np.savez(name, **results)
compiler = ("api", "compiler", "frontends", "fusion", "layout", "memory", "ops", "passes", "schedule")
print([name for name in sys.modules if name.startswith(tuple(f"graphwright.{part}" for part in compiler))])
print("graphwright.targets.cpu.toolchain" in sys.modules)
"""


@pytest.fixture(scope="module")
def path() -> Path:
    return file_of("silero_vad")


@pytest.fixture(scope="module")
def model(path: Path) -> gw.Model:
    return gw.compile(path)


@pytest.fixture(scope="module")
def peer(path: Path) -> onnxruntime.InferenceSession:
    return session(path)


def speech(samples: int, batch: int) -> Any:
    """Bursts of a voice-like sum of harmonics in noise, f32 in (-1, 1)."""
    generator = np.random.default_rng(batch)
    time = np.arange(samples) / samples
    voice = sum(np.sin(2 * np.pi * 150 * k * time + k) / k for k in range(1, 12))
    bursts = (np.sin(2 * np.pi * 3 * time) > 0) * voice * 0.15
    return (bursts + generator.normal(0, 0.02, (batch, samples))).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rate", RATES)
def test_a_stream_of_chunks_is_onnxruntimes(
    model: gw.Model, peer: onnxruntime.InferenceSession, rate: int, batch: int
) -> None:
    chunk = RATES[rate]
    context = chunk // 8
    waves = np.concatenate([np.zeros((batch, context), np.float32), speech(CHUNKS * chunk, batch)], axis=1)
    here = there = np.zeros((2, batch, 128), np.float32)
    chances = []
    for start in range(0, CHUNKS * chunk, chunk):
        samples, sr = waves[:, start : start + context + chunk].copy(), np.array(rate, np.int64)
        found = model.run({"input": samples, "state": here, "sr": sr})
        chance, there = peer.run(["output", "stateN"], {"input": samples, "state": there, "sr": sr})
        here = found["stateN"]
        assert found["output"].shape == (batch, 1) and here.shape == (2, batch, 128)
        np.testing.assert_allclose(found["output"], chance, rtol=0, atol=1e-4)
        assert distance(here, there) < 2e-4
        chances.append(chance)
    assert np.ptp(chances) > 1e-3, "the stream must have an effect to compare"
    assert model.stats()["host_calls"] == 0


@pytest.mark.parametrize("rate", RATES)
def test_the_sampling_rate_can_be_a_constant(
    path: Path, peer: onnxruntime.InferenceSession, rate: int
) -> None:
    fixed = gw.compile(path, constants={"sr": np.array(rate, np.int64)})
    assert [spec.name for spec in fixed.inputs] == ["input", "state"]
    for batch in (1, 3):
        feeds = {
            "input": speech(RATES[rate] * 9 // 8, batch),
            "state": np.full((2, batch, 128), 0.1, np.float32),
        }
        expected = peer.run(["output", "stateN"], {**feeds, "sr": np.array(rate, np.int64)})
        found = fixed.run(feeds)
        assert distance(found["output"], expected[0]) < 2e-4
        assert distance(found["stateN"], expected[1]) < 2e-4
    assert host_calls(fixed) == []
    assert fixed.stats()["host_calls"] == 0


def test_its_package_runs_every_size_without_a_compiler(
    model: gw.Model, peer: onnxruntime.InferenceSession, tmp_path: Path
) -> None:
    model.save(tmp_path / "silero.om")
    cases = {}
    for rate, chunk in RATES.items():
        for batch in (1, 2):
            feeds = {
                "input": speech(chunk * 9 // 8, batch),
                "state": np.full((2, batch, 128), 0.1, np.float32),
                "sr": np.array(rate, np.int64),
            }
            file = tmp_path / f"{rate}-{batch}.npz"
            np.savez(file, **feeds)
            cases[file] = peer.run(["output", "stateN"], feeds)
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-c", _OFFLINE, str(tmp_path / "silero.om"), *map(str, cases)]
    environment = {**os.environ, "PATH": str(tmp_path / "empty")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["[]", "False"]
    for file, expected in cases.items():
        with np.load(file) as found:
            assert distance(found["output"], expected[0]) < 2e-4
            assert distance(found["stateN"], expected[1]) < 2e-4


@pytest.mark.parametrize("rate", RATES)
def test_its_arena_holds_little_more_than_what_is_live(model: gw.Model, rate: int) -> None:
    used = model.memory({"input": (1, RATES[rate] * 9 // 8), "state": (2, 1, 128)}, threads=1)
    assert 0 < used.live <= used.arena <= 1.03 * used.live


def test_samples_that_no_branch_takes_end_the_run_with_the_reason(model: gw.Model) -> None:
    feeds = {"state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000, np.int64)}
    with pytest.raises(
        gw.GraphwrightError, match=r"LSTM: the input is .* a branch that cannot run on inputs of these shapes"
    ):
        model.run({"input": np.zeros((1, 2000), np.float32), **feeds})


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_given_to_the_command_leaves_no_branch_on_it(
    path: Path, model: gw.Model, rate: int, tmp_path: Path
) -> None:
    """The package has neither nodes nor weights for the other rate; the branch on a size remains."""
    file = tmp_path / "fixed.om"
    result = graphwright("compile", path, "-o", file, "--const", f"sr={rate}")
    assert result.exit_code == 0, result.stderr
    fixed = gw.load(file)
    assert [spec.name for spec in fixed.inputs] == ["input", "state"]
    assert model.entry.graph.count("= If[") == 3 and fixed.entry.graph.count("= If[") == 1
    assert len(fixed.package.weights.data) < 0.6 * len(model.package.weights.data)
    feeds = {
        "input": speech(RATES[rate] * 9 // 8, 2),
        "state": np.full((2, 2, 128), 0.1, np.float32),
    }
    open_rate = model.run({**feeds, "sr": np.array(rate, np.int64)})
    for name, found in fixed.run(feeds).items():
        assert distance(found, open_rate[name]) < 1e-5


def test_no_branch_remains_with_static_shapes_and_a_constant_rate(path: Path) -> None:
    fixed = gw.compile(path, constants={"sr": 16000}, shapes={"input": (1, 576), "state": (2, 1, 128)})
    assert "If[" not in fixed.entry.graph
    assert fixed.report().endswith("dynamic: nothing\n")
