"""graphwright, on an ``.om`` file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import graphwright as gw

Array = np.ndarray[Any, Any]


def start(model: Path, threads: int) -> Callable[[Mapping[str, Array]], list[Array]]:
    """Load ``model``; the function runs it on ``threads`` threads."""
    gw.set_threads(threads)
    loaded = gw.load(model)
    return lambda feeds: list(loaded.run(feeds).values())
