"""InferenceSession with the interface of ONNX Runtime, for a compiled model."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

from graphwright.config import Options
from graphwright.errors import FeedError
from graphwright.ir.arrays import Array
from graphwright.ir.dtypes import STRING
from graphwright.onnxruntime import feeds
from graphwright.onnxruntime.binding import IOBinding, SessionIOBinding
from graphwright.onnxruntime.devices import CPU, OrtMemoryInfo, require_cpu
from graphwright.onnxruntime.ep_devices import DEVICE, OrtEpDevice
from graphwright.onnxruntime.errors import (
    Fail,
    InvalidArgument,
    Status,
    Unsupported,
    foreign_op,
    translated,
)
from graphwright.onnxruntime.faults import sentence
from graphwright.onnxruntime.options import RunOptions, SessionOptions
from graphwright.onnxruntime.profile import Profile
from graphwright.onnxruntime.providers import ALL, AVAILABLE, warn_of_others
from graphwright.onnxruntime.signature import ModelMetadata, NodeArg
from graphwright.onnxruntime.sources import Source, open_session_model
from graphwright.onnxruntime.values import OrtValue, OrtValueVector, held
from graphwright.records import replace
from graphwright.runtime.events.task_calls import record_tasks
from graphwright.runtime.model import Model
from graphwright.session import EXTERNAL_DATA

_NO_FALLBACK: Final = "session.disable_cpu_ep_fallback"
"""The configuration entry with which a script rejects the CPU as a substitute for another provider."""
Callback = Callable[[list[Any], Any, str], Any]


class InferenceSession:
    """A model, compiled or loaded, ready to run from any thread."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """From the path or bytes of an ONNX model, or the path of an ``.om``; all runs on the CPU.

        ``kwargs`` are ONNX Runtime's internal ones, and change nothing. Raises the classes of
        ``onnxruntime.capi.onnxruntime_pybind11_state``, and TypeError for neither a path nor bytes.
        """
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options takes SessionOptions, not {type(sess_options).__name__}")
        self._sess_options = sess_options or SessionOptions()
        source = _source(path_or_bytes)
        self._model_path = source if isinstance(source, str) else None
        """The name that ONNX Runtime uses, which packages read."""
        self._model_bytes = source if isinstance(source, bytes) else None
        _require_fallback(warn_of_others(providers, provider_options), self._sess_options)
        profiled = self._sess_options.enable_profiling
        self._profile = Profile(self._sess_options.profile_file_prefix) if profiled else None
        self._profiled_since = 0 if self._profile is None else self._profile.start
        self._options = _compile_options(self._sess_options)
        try:
            with translated():
                self._opened = open_session_model(source, self._sess_options, self._options)
        except Fail as error:
            raise _about_libraries(error, self._sess_options.libraries()) from error.__cause__
        self._model, self._signature = self._opened.model, self._opened.signature
        self._takes_arrays = all(spec.dtype is not STRING for spec in self._model.inputs)
        self._names = [arg.name for arg in self._signature.outputs]
        self._required = [arg.name for arg in self._signature.inputs]
        if self._profile is not None:
            self._profile.initialized()

    def run(
        self,
        output_names: Iterable[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs named, or all if none is, in order.

        Raises ValueError for a missing input, InvalidArgument for what does not fit.
        """
        _begin(run_options)
        if isinstance(output_names, str):
            raise TypeError(f"output_names takes a sequence of names, not the text {output_names!r}")
        names = output_names if isinstance(output_names, list) else list(output_names or ())
        feed = input_feed if run_options is None else run_options.adapted(input_feed)
        with translated(lambda: sentence(self._signature, names, feed)):
            return self._results(names or self._names, feed)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs in another thread, which then calls ``callback(results, user_data, error)``.

        ``error`` is empty if the run succeeded, else ``results`` is.
        """
        _begin(run_options)
        feeds.require(self._required, self._model.inputs, input_feed)
        _workers().submit(self._called_back, output_names, input_feed, callback, user_data)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | Mapping[str, OrtValue] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> OrtValueVector:
        """As :meth:`run`, with OrtValues. Raises TypeError for other values.

        The feed may come before the names, as for ONNX Runtime's native session.
        """
        if isinstance(output_names, Mapping):
            return self.run_with_ort_values(list(input_dict_ort_values), output_names, run_options)
        feeds.require_mapping("input_dict_ort_values", input_dict_ort_values)
        feed = {name: held(value, f"input {name!r}") for name, value in input_dict_ort_values.items()}
        return OrtValueVector(map(OrtValue, self.run(output_names, feed, run_options)))

    def run_with_iobinding(
        self, iobinding: IOBinding | SessionIOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Runs on bound memory.

        Raises TypeError for no binding, ValueError for one of another session, RuntimeError otherwise.
        """
        if isinstance(iobinding, SessionIOBinding):
            iobinding = iobinding.binding
        if not isinstance(iobinding, IOBinding):
            kind = type(iobinding).__name__
            raise TypeError(f"iobinding takes the result of session.io_binding(), not {kind}")
        if iobinding.session is not self:
            raise ValueError("IOBinding must be used with the session that created it")
        _begin(run_options)
        try:
            iobinding.run(self._written)
        except Exception as error:
            raise RuntimeError(f"Error in execution: {error}") from error

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: object,
    ) -> None:
        """As :meth:`run_with_ort_values`; the results are appended to ``fetches``."""
        found = self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds, strict=True)), run_options)
        fetches[:] = found

    @property
    def _sess(self) -> InferenceSession:
        """The native session, which ONNX Runtime's Python class wraps and some scripts call."""
        return self

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """The native session's name for :meth:`get_inputs`."""
        return self._signature.inputs

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """The native session's name for :meth:`get_outputs`."""
        return self._signature.outputs

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        """The native session's name for :meth:`get_overridable_initializers`."""
        return self._signature.overridable

    @property
    def model_meta(self) -> ModelMetadata:
        """The native session's name for :meth:`get_modelmeta`."""
        return self._signature.metadata

    # attributes of ONNX Runtime's Python class, which some scripts read
    _inputs_meta, _outputs_meta = inputs_meta, outputs_meta
    _overridable_initializers, _model_meta = overridable_initializers, model_meta

    _enable_fallback = True

    @property
    def _providers(self) -> list[str]:
        return self.get_providers()

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        return self.get_provider_options()

    def io_binding(self) -> IOBinding:
        """Bindings of inputs and outputs to memory."""
        return IOBinding(self)

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A new value, as ``OrtValue.ortvalue_from_shape_and_type``."""
        require_cpu(device_type, device_id, vendor_id)
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type)

    def get_inputs(self) -> list[NodeArg]:
        """The required inputs."""
        return self._signature.inputs

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return self._signature.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that feeds can replace."""
        return self._signature.overridable

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata of the source model."""
        return self._signature.metadata

    def get_session_options(self) -> SessionOptions:
        """The options of the session."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """The providers: always the CPU."""
        return list(AVAILABLE)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the CPU: none."""
        return {name: {} for name in AVAILABLE}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Sequence[Any] | None = None
    ) -> None:
        """Checks the names; the CPU still runs the model. Raises RuntimeError for an unknown name."""
        warn_of_others(providers, provider_options)
        for provider in providers or ():
            name = provider[0] if isinstance(provider, tuple) else provider
            if name not in ALL:
                raise RuntimeError(f"Unknown Provider Type: {name}")

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """The CPU's memory, for each input."""
        return [CPU] * len(self._signature.inputs)

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """The CPU's memory, for each output."""
        return [CPU] * len(self._signature.outputs)

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The CPU, for each input."""
        return [DEVICE] * len(self._signature.inputs)

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """Raises Fail: all nodes are the CPU's, and most are fused (``graphwright inspect`` shows them)."""
        raise Fail("graphwright runs all nodes on the CPU: `graphwright inspect FILE` shows its tasks")

    def get_tuning_results(self) -> list[Any]:
        """Empty: nothing is tuned at run time."""
        return []

    def set_tuning_results(self, results: object, *, error_on_invalid: bool = False) -> None:
        """Nothing."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Does nothing: the CPU has none."""

    def enable_fallback(self) -> None:
        """Does nothing: there is one provider."""

    def disable_fallback(self) -> None:
        """Does nothing: there is one provider."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Does nothing: graphs are captured on GPUs."""

    def end_profiling(self) -> str:
        """Writes the profile and returns its path; returns "" without ``enable_profiling``, or if called
        again.
        """
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.write()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began on the monotonic clock; 0 without it."""
        return self._profiled_since

    def _written(self, names: list[str], feed: Mapping[str, Any], out: Mapping[str, Array]) -> list[Any]:
        """The outputs named; those in ``out`` are written there if they fit, except in a profiled session."""
        with translated(lambda: sentence(self._signature, names, feed)):
            return self._results(names, feed, out)

    def _results(
        self, names: Sequence[str], feed: Mapping[str, Any], out: Mapping[str, Array] | None = None
    ) -> list[Any]:
        if self._profile is not None:
            return self._profiled(self._profile, names, feed)
        try:
            return _listed(self._model, names, feed if self._takes_arrays else self._fitting(feed)[1], out)
        except FeedError:
            model, known = self._fitting(feed)
            return model.listed(names, known)  # the caller reports memory that does not fit

    def _fitting(self, feed: Mapping[str, Any]) -> tuple[Model, dict[str, Any]]:
        """The variant of the model for the shapes of ``feed``, and ``feed`` converted to its input types."""
        feeds.require(self._required, self._model.inputs, feed)
        known = feeds.converted(self._model.inputs, feed)
        shapes = {name: getattr(value, "shape", ()) for name, value in known.items()}
        model = self._opened.variant(feed, shapes)
        return model, known if model is self._model else feeds.converted(model.inputs, known)

    def _profiled(self, profile: Profile, names: Sequence[str], feed: Mapping[str, Any]) -> list[Any]:
        model, known = self._fitting(feed)
        begin = time.monotonic_ns()
        results, times = record_tasks(lambda: model.listed(names, known))
        profile.add(begin, times)
        return results

    def _called_back(
        self, names: Sequence[str] | None, feed: Mapping[str, Any], callback: Callback, user_data: Any
    ) -> None:
        try:
            results, fault = self.run(names, feed), ""
        except Status as error:
            results, fault = [], error.without_code()
        except Exception as error:
            results, fault = [], str(error)
        try:
            callback(results, user_data, fault)
        except Exception as error:
            warnings.warn(f"the callback of run_async raised {type(error).__name__}: {error}", stacklevel=2)


def _about_libraries(error: Fail, libraries: Sequence[str]) -> Exception:
    """``error``, or what to do if it is about an op of the registered ``libraries``."""
    if not libraries or not foreign_op(error.__cause__):
        return error
    return Unsupported(
        f"{', '.join(libraries)}: a library of custom ops calls ONNX Runtime's C API, which graphwright does "
        "not have; write the ops as a plugin (docs/plugins.md) and load it with GRAPHWRIGHT_PLUGINS\n"
        f"{error.__cause__}"
    )


def _listed(
    model: Model, names: Sequence[str], feed: Mapping[str, Any], out: Mapping[str, Array] | None
) -> list[Any]:
    if not out:
        return model.listed(names, feed)
    results = model.run(feed, names, out=out)
    return [results[name] for name in names]


@cache
def _workers() -> ThreadPoolExecutor:
    """Threads of run_async; each run uses the threads of its session besides."""
    return ThreadPoolExecutor(thread_name_prefix="graphwright.run_async")


def _source(given: object) -> Source:
    if isinstance(given, bytes):
        return given
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    raise TypeError(f"Unable to load from type '{type(given)}': give a path or bytes")


def _compile_options(given: SessionOptions) -> Options:
    with translated():
        options = Options.from_environment()
    if given.has_session_config_entry(EXTERNAL_DATA):
        options = replace(options, external_data=Path(given.get_session_config_entry(EXTERNAL_DATA)))
    threads = given.intra_op_num_threads
    return replace(options, threads=threads) if threads > 0 else options


def _begin(given: RunOptions | None) -> None:
    """Raises TypeError if ``options`` are not RunOptions, and Fail if they terminate the run."""
    if given is None:
        return
    if not isinstance(given, RunOptions):
        raise TypeError(f"run_options takes RunOptions, not {type(given).__name__}")
    if given.terminate:
        raise Fail("Exiting due to terminate flag being set to true.")


def _require_fallback(names: Sequence[str], options: SessionOptions) -> None:
    """Raises InvalidArgument or Fail if ``options`` reject the CPU as a substitute: it runs all nodes."""
    known = options.has_session_config_entry(_NO_FALLBACK)
    if not known or options.get_session_config_entry(_NO_FALLBACK) != "1":
        return
    if not set(AVAILABLE).isdisjoint(names):
        raise InvalidArgument(
            "Conflicting session configuration: explicitly added the CPU EP to the session, but also "
            f"disabled fallback to the CPU EP via session configuration options: remove {_NO_FALLBACK}"
        )
    raise Fail(
        "This session contains graph nodes that are assigned to the default CPU EP, but fallback to CPU "
        "EP has been explicitly disabled by the user: graphwright has no other provider; "
        f"remove {_NO_FALLBACK}"
    )
