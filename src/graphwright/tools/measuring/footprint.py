"""Measures the memory of loading a model and running it once, as the operating system counts it.

Only anonymous memory is counted (``RssAnon`` of ``/proc/PID/status``), which excludes the code of libraries
and memory-mapped weights. The model runs in a process of its own; this process reads its memory twice per
millisecond, so it can miss a short peak of a few MiB.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from graphwright.errors import Diagnostic, GraphwrightError
from graphwright.records import dataclass
from graphwright.tools.arrays import write_feeds

Array = np.ndarray[Any, Any]
_SCRIPT: Final = Path(__file__).with_name("one_run.py")
_PERIOD: Final = 0.0005
"""Seconds between two readings."""


class FootprintError(GraphwrightError):
    """The process ended before its run did."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of anonymous memory: before the model was loaded, at the peak, and after the run."""

    before: int
    peak: int
    after: int

    @property
    def increase(self) -> int:
        """The peak of loading and running; includes the import of the engine if it was not imported
        before.
        """
        return self.peak - self.before


def measure(
    engine: str,
    model: Path,
    feeds: Mapping[str, Array],
    threads: int = 1,
    *,
    mapped: bool = False,
    imported: str = "",
    environment: Mapping[str, str] | None = None,
) -> Footprint:
    """Loads ``model`` in ``engine`` (graphwright or onnxruntime) and runs it once, in a new process.

    ``imported`` are modules of graphwright that are there before, see ``one_run.py``. ``environment`` adds
    variables to this process's own.

    A package runs as it is, whoever signed it. Raises FootprintError where the process fails or there is no
    ``/proc``.
    """
    with tempfile.TemporaryDirectory(prefix="graphwright-") as folder:
        arrays = Path(folder) / "feeds.npz"
        write_feeds(arrays, feeds)
        command = [sys.executable, "-P", str(_SCRIPT), engine, str(model), str(arrays), str(threads)]
        with (
            open(Path(folder) / "errors", "w+b") as errors,
            subprocess.Popen(
                [*command, "mapped" if mapped else "copied", imported],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, **(environment or {})},
            ) as process,
        ):  # fmt: skip
            try:
                return _watch(process)
            except (OSError, ValueError) as error:
                process.kill()
                errors.seek(0)
                ended = f"it ended with status {process.wait()}: {error}"
                lines = errors.read().decode(errors="replace").strip().splitlines() or [ended]
                raise FootprintError(Diagnostic("footprint", lines[-1], str(model))) from error


def _watch(process: subprocess.Popen[bytes]) -> Footprint:
    assert process.stdin is not None and process.stdout is not None
    _expect(process.stdout.readline(), b"ready\n")
    before = peak = _anonymous(process.pid)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    while not select.select([process.stdout], [], [], _PERIOD)[0]:
        peak = max(peak, _anonymous(process.pid))
    _expect(process.stdout.readline(), b"done\n")
    after = _anonymous(process.pid)
    return Footprint(before, max(peak, after), after)


def _expect(line: bytes, wanted: bytes) -> None:
    if line != wanted:
        raise ValueError(f"the process said {line!r}")


def _anonymous(process: int) -> int:
    """``RssAnon`` in bytes; 0 if the process has ended. Raises OSError if there is no ``/proc``."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * next((int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")), 0)
