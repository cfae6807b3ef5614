"""Measures which programs of a library for ONNX Runtime are faster than the nodes of ONNX Runtime.

A program is measured inside the model: the fused model with all programs is compared with the same model in
which ONNX Runtime runs the nodes of this program itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import onnx

from graphwright.autofusion.onnxruntime.operator_library import Library
from graphwright.config import Options
from graphwright.export.onnx import FUNCTION_DOMAIN, OnnxModel, save_model
from graphwright.export.onnx.functions import all_nodes
from graphwright.tools.measuring.bench import ROUND_SECONDS, Ratio, Worker, ratio, take_turns, worker_process
from graphwright.tools.measuring.engines import LIBRARY

_UNSERVED: Final = "_unserved"
"""The suffix of the name of a function for which the library has no operator."""


def measure_programs(
    model: OnnxModel,
    library: Library,
    feeds: Mapping[str, Any],
    threads: int,
    progress: Callable[[str], None] = lambda text: None,
    rounds: int = 20,
    round_seconds: float = ROUND_SECONDS,
) -> dict[str, Ratio]:
    """For each program of ``library``, by name, the time of ``model`` with it relative to the time without
    it, when ONNX Runtime runs its nodes. Raises EngineError if ONNX Runtime is not installed or rejects the
    model.
    """
    threads = threads or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = folder / "served.onnx"
        save_model(model, served, external=True)
        with open(_library_of(served), "wb") as file:
            library.write(file)
        found = {}
        for number, operator in enumerate(library.operators):
            progress(f"measuring program {number + 1} of {len(library.operators)}")
            without = _leave(operator.name, served, folder / f"without_{number}.onnx")
            with _workers((served, without), feeds, threads, folder) as workers:
                take_turns(workers, rounds, round_seconds)
            found[operator.name] = ratio(*(worker.measured for worker in workers))
        return found


def slower_programs(ratios: Mapping[str, Ratio]) -> dict[str, str]:
    """The programs that were slower in three of four rounds, with the measured ratio."""
    return {
        name: f"the model takes {ratio_text(found)} of the time with the program"
        for name, found in ratios.items()
        if found.low > 1
    }


def ratio_text(found: Ratio) -> str:
    """``0.62 (0.60 to 0.65)``."""
    return f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})"


def _library_of(model: Path) -> Path:
    return model.with_name(f"{model.name}.so")


def _leave(function: str, served: Path, path: Path) -> Path:
    """Writes ``served`` to ``path`` with another name for ``function``, for which its library has no
    operator.
    """
    proto = onnx.load(served, load_external_data=False)
    calls = [*all_nodes(proto.graph.node), *(n for each in proto.functions for n in all_nodes(each.node))]
    for call in calls:
        if call.domain == FUNCTION_DOMAIN and call.op_type == function:
            call.op_type += _UNSERVED
    for each in proto.functions:
        if each.domain == FUNCTION_DOMAIN and each.name == function:
            each.name += _UNSERVED
    onnx.save(proto, path)
    os.link(_library_of(served), _library_of(path))
    return path


@contextmanager
def _workers(
    models: Sequence[Path], feeds: Mapping[str, Any], threads: int, folder: Path
) -> Iterator[list[Worker]]:
    """A process of ONNX Runtime for each of ``models``."""
    with ExitStack() as stack:
        workers = []
        for model in models:
            worker = stack.enter_context(worker_process(LIBRARY, Options()))
            worker.load(model, feeds, threads, folder)
            workers.append(worker)
        yield workers
