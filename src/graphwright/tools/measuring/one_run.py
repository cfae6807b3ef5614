"""The script of a process that loads a model and runs it once; ``footprint.py`` watches its memory.

Arguments: engine, model, feeds (an .npz), threads, whether the weights are mapped, and what of graphwright
is imported first: nothing, the ``runtime``, or the runtime and the ``ops``, which nodes in Python need. The
script prints ``ready`` when NumPy and the feeds are loaded, and continues when it receives a line. It prints
``done`` after the run, and ends when it receives another line. It is started by its path, so that nothing of
graphwright is imported before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_ERRORS_ONLY = 3


def _graphwright(model: str, threads: int, mapped: bool) -> Callable[[dict[str, Any]], Any]:
    from graphwright.config import Options
    from graphwright.loading import load

    options = Options.from_environment(threads=threads)
    loaded = load(model, trust=True, mmap=mapped, options=options)
    dtypes = {spec.name: spec.dtype.numpy for spec in loaded.inputs}  # of which a file may not know all

    def run(feeds: dict[str, Any]) -> Any:
        return loaded.run({name: array.view(dtypes[name]) for name, array in feeds.items()})

    return run


def _import_graphwright(ops: bool) -> None:
    """All modules that loading and running take, and the library of kernels."""
    from graphwright.config import Options
    from graphwright.loading import load  # noqa: F401
    from graphwright.runtime.devices.kernel_library import kernel_library
    from graphwright.runtime.devices.this_cpu import target_isa

    kernel_library(target_isa(Options.from_environment()))
    if ops:
        import graphwright.runtime.host_program.executor
        import graphwright.runtime.host_program.host_call  # noqa: F401


def _onnxruntime(model: str, threads: int, mapped: bool) -> Callable[[dict[str, Any]], Any]:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _ERRORS_ONLY
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


_ENGINES = {"graphwright": _graphwright, "onnxruntime": _onnxruntime}


def main(engine: str, model: str, arrays: str, threads: str, mapped: str, imported: str = "") -> None:
    """Wait, load, run, wait. The file has the names of the inputs in addition to their arrays."""
    if imported:
        _import_graphwright(ops=imported == "ops")
    with np.load(arrays, allow_pickle=False) as file:
        feeds = {str(name): file[f"input_{k}"] for k, name in enumerate(file["names"])}
    print("ready", flush=True)
    sys.stdin.readline()
    run = _ENGINES[engine](model, int(threads), mapped == "mapped")
    outputs = run(feeds)
    print("done", flush=True)
    sys.stdin.readline()
    del run, outputs


if __name__ == "__main__":
    main(*sys.argv[1:])
