"""silero_vad, from its file as shipped: If over the rate, LSTM, a state that each run hands to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphwright as gw
from tests.models.support import distance, file_of, host_calls, session

CHUNKS = 20
RATES = {16000: 512, 8000: 256}
"""Samples of a chunk at each rate; an eighth more, the end of the chunk before, goes in front."""


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
def test_the_rate_can_be_given_once(path: Path, peer: onnxruntime.InferenceSession, rate: int) -> None:
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
