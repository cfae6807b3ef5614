"""Measurements, and the models that they run."""

from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).with_name("results")
"""The folder of measured figures, as JSON files."""
MODEL_RESULTS: Final = RESULTS / "models"
"""The results of whole models, which ``benchmarks.peers`` measures."""
