"""The engines that are compared: each one loads a model file as a function of feeds, all in f32."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from graphwright.config import Options
from graphwright.errors import Diagnostic, GraphwrightError
from graphwright.loading import load
from graphwright.records import dataclass
from graphwright.runtime.model import Model

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], dict[str, Array]]
OURS: Final = "graphwright"
LIBRARY: Final = "onnxruntime-library"
"""ONNX Runtime with the library that ``graph-autofusion --library`` writes next to its model."""
_ERRORS_ONLY = 3


class EngineError(GraphwrightError):
    """Another engine is not installed, or refuses a model."""


def _graphwright(model: Path, threads: int) -> Run:
    loaded = load(model, trust=True, options=Options.from_environment(threads=threads))
    return loaded.run


def _onnxruntime(model: Path, threads: int, library: Path | None = None) -> Run:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, _ERRORS_ONLY
    if library is not None:
        options.register_custom_ops_library(str(library))
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _onnxruntime_library(model: Path, threads: int) -> Run:
    return _onnxruntime(model, threads, model.with_name(f"{model.name}.so"))


def _openvino(model: Path, threads: int) -> Run:
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(model), "CPU", settings)
    names = [output.any_name if output.names else f"output_{i}" for i, output in enumerate(compiled.outputs)]
    return lambda feeds: dict(zip(names, compiled(dict(feeds)).to_tuple(), strict=True))


def _inductor(program: Path, threads: int) -> Run:
    """torch.compile with freezing, for a file of torch.export; feeds are in the order of its inputs."""
    torch = importlib.import_module("torch")
    config: Any = importlib.import_module("torch._inductor.config")
    config.freezing = True
    config.compile_threads = 1  # without worker processes, which would survive a stopped process
    torch.set_num_threads(threads)
    compiled = torch.compile(torch.export.load(program).module())

    def run(feeds: Mapping[str, Array]) -> dict[str, Array]:
        with torch.no_grad():
            results = compiled(*(torch.from_numpy(array) for array in feeds.values()))
        tensors = results if isinstance(results, (tuple, list)) else (results,)
        return {f"output_{i}": tensor.numpy() for i, tensor in enumerate(tensors)}

    return run


@dataclass(frozen=True)
class Engine:
    """``package`` must be installed; ``load(file, threads)`` reads files of the type ``suffix``."""

    package: str
    suffix: str
    load: Callable[[Path, int], Run]


ENGINES: Final = {
    OURS: Engine(OURS, ".om", _graphwright),
    "onnxruntime": Engine("onnxruntime", ".onnx", _onnxruntime),
    LIBRARY: Engine("onnxruntime", ".onnx", _onnxruntime_library),
    "openvino": Engine("openvino", ".onnx", _openvino),
    "inductor": Engine("torch", ".pt2", _inductor),
}
PEERS: Final = tuple(name for name in ENGINES if name not in (OURS, LIBRARY))
ONNX_PEERS: Final = tuple(name for name in PEERS if ENGINES[name].suffix == ".onnx")


def is_installed(engine: str) -> bool:
    """Whether the package of ``engine`` can be imported."""
    return importlib.util.find_spec(ENGINES[engine].package) is not None


def start(engine: str, model: Path, threads: int) -> Run:
    """Loads ``model`` in ``engine``, which runs on ``threads`` threads. An EngineError says why it cannot."""
    if not is_installed(engine):
        hint = f"pip install {ENGINES[engine].package}"
        raise EngineError(Diagnostic("engine", f"{engine} is not installed", hint=hint))
    try:
        return ENGINES[engine].load(model, threads)
    except GraphwrightError:
        raise
    except Exception as error:  # other engines raise exceptions of their own types
        raise EngineError(
            Diagnostic("engine", f"{engine} cannot load it: {first_line(error)}", str(model))
        ) from error


def counters(run: Run) -> dict[str, int]:
    """The counters of runs of graphwright; empty for other engines."""
    model = getattr(run, "__self__", None)
    return model.stats() if isinstance(model, Model) else {}


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
