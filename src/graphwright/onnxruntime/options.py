"""SessionOptions and RunOptions: every field of ONNX Runtime's, with its default and its type."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from operator import index
from typing import Any

from graphwright.ir.arrays import Array
from graphwright.onnxruntime.adapters import LoraAdapter
from graphwright.onnxruntime.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from graphwright.onnxruntime.ep_devices import OrtEpDevice
from graphwright.onnxruntime.errors import Fail, InvalidArgument
from graphwright.onnxruntime.providers import ALL, AVAILABLE
from graphwright.onnxruntime.values import OrtValue
from graphwright.records import dataclass

_LONGEST_KEY = 1024
_LONGEST_VALUE = 8192
"""ONNX Runtime's limits of the bytes of a configuration entry."""


class _Fields:
    """Fields whose types are those of their defaults, and text entries in addition."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def __dir__(self) -> list[str]:
        """The public names, as of a native class: scripts pickle options by reading and setting all."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        kind = type(self).__name__
        fields = [field for base in type(self).__mro__ for field in getattr(base, "__annotations__", ())]
        if name not in fields:
            raise AttributeError(f"{kind!r} has no field {name!r}: its fields are {', '.join(fields)}")
        default = getattr(type(self), name)
        wanted = type(default)
        if wanted is int and hasattr(value, "__index__"):
            value = index(value)
        if wanted is bool and (value is None or hasattr(value, "__bool__")):
            value = bool(value)  # also NumPy's
        if not isinstance(value, wanted):
            such = f", such as {default}" if isinstance(default, Enum) else ""
            raise TypeError(f"{kind}.{name} takes {wanted.__name__}{such}, not {type(value).__name__}")
        super().__setattr__(name, wanted(value))

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"a configuration entry takes texts, not {key!r} and {value!r}")
        if not 0 < len(key.encode()) <= _LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {_LONGEST_KEY}")
        if len(value.encode()) > _LONGEST_VALUE:
            raise RuntimeError(f"Config value is longer than maximum length: {_LONGEST_VALUE}")
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


def _size(what: str, given: int) -> int:
    size = index(given)
    if size < 0:
        raise ValueError(f"dimension {what!r} cannot have size {size}: give a number from 0")
    return size


@dataclass(frozen=True)
class Overrides:
    """Sizes of dimensions, by their name or denotation, elements of initializers, and files by their name."""

    sizes: Mapping[str, int]
    denotations: Mapping[str, int]
    initializers: Mapping[str, Array]
    files: Mapping[str, bytes]


class SessionOptions(_Fields):
    """How to make a session.

    Those that graphwright follows: ``intra_op_num_threads``, ``enable_profiling``, ``profile_file_prefix``,
    ``optimized_model_filepath``, overrides of free dimensions and of initializers. All others are kept and
    change nothing (docs/onnxruntime.md says why).
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}
        self._denotations: dict[str, int] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._files: dict[str, bytes] = {}
        self._has_providers = False
        self._libraries: list[str] = []

    def overrides(self) -> Overrides:
        """The values that it replaces in a model."""
        arrays = {name: value.array() for name, value in self._initializers.items()}
        return Overrides(dict(self._sizes), dict(self._denotations), arrays, dict(self._files))

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Stores an entry; graphwright follows those about files of weights and about the fallback to the CPU
        (docs/onnxruntime.md).

        Raises TypeError unless both are strings.
        """
        self._add(key, value)

    def has_session_config_entry(self, key: str) -> bool:
        """Whether the entry was added."""
        return key in self._entries

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry. Raises RuntimeError."""
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes each dimension that the model calls ``name``. Raises TypeError; ValueError below 0."""
        self._sizes.setdefault(name, _size(name, size))

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes each dimension with this denotation, such as ``DATA_BATCH``. Raises as the one above."""
        self._denotations.setdefault(denotation, _size(denotation, size))

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Gives an initializer of the model the elements of ``value``. Raises RuntimeError for no
        OrtValue.
        """
        if not isinstance(value, OrtValue):
            raise RuntimeError(f"initializer {name!r} takes an OrtValue, not {type(value).__name__}")
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """As :meth:`add_initializer`, for several. Raises RuntimeError for lists of different lengths."""
        if len(names) != len(values):
            raise RuntimeError(f"{len(names)} names for {len(values)} values: give one value for each name")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[bytes], lengths: Sequence[int]
    ) -> None:
        """Gives the contents of the files that contain the model's initializers, by the names of these files
        in the model.
        """
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self._files[name] = bytes(memoryview(buffer)[:length])

    def register_custom_ops_library(self, path: str) -> None:
        """Stores the path: such a library calls ONNX Runtime's C API, so plugins take its place.

        A session raises NotImplemented if its model has ops that no plugin maps. Raises Fail for a missing
        file and TypeError for no path.
        """
        library = os.fspath(path)
        if os.sep in library and not os.path.isfile(library):
            raise Fail(f"Failed to load library {library} with error: there is no such file")
        self._libraries.append(library)

    def libraries(self) -> list[str]:
        """The paths of :meth:`register_custom_ops_library`."""
        return list(self._libraries)

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Only recorded: graphwright runs on the CPU. Raises RuntimeError for an unknown name, and
        InvalidArgument for a provider that is not here.
        """
        if name not in ALL:
            raise RuntimeError(f"Unknown Provider Type: {name}")
        if name not in AVAILABLE:
            raise InvalidArgument(f"Failed to add provider of type '{name}': graphwright runs on the CPU")
        self._has_providers = True

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]) -> None:
        """Only recorded, as :meth:`add_provider`. Raises InvalidArgument for no devices, and TypeError for
        what ``get_ep_devices`` does not return.
        """
        if not devices:
            raise InvalidArgument("Must provide one or more OrtEpDevice instances.")
        for device in devices:
            if not isinstance(device, OrtEpDevice):
                raise TypeError(f"devices are those of get_ep_devices(), not {device!r}")
        self._has_providers = True

    def has_providers(self) -> bool:
        """Whether one was added."""
        return self._has_providers

    def set_provider_selection_policy(self, policy: object) -> None:
        """Does nothing, as :meth:`add_provider`."""

    def set_provider_selection_policy_delegate(self, delegate: object) -> None:
        """Does nothing, as :meth:`add_provider`."""

    def set_ep_context_data_read_func(self, read: object) -> None:
        """Does nothing: no provider here keeps compiled parts with a model."""

    def clear_ep_context_data_read_func(self) -> None:
        """Does nothing, as :meth:`set_ep_context_data_read_func`."""

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """Does nothing: a session that is being made cannot be stopped."""


class RunOptions(_Fields):
    """How to run. A run whose options have ``terminate`` set does not begin; the rest changes nothing."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False

    def __init__(self) -> None:
        super().__init__()
        self._adapters: list[LoraAdapter] = []

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Stores an entry; no key changes what graphwright does. Raises TypeError unless both are strings."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry. Raises RuntimeError."""
        return self._get(key)

    def add_active_adapter(self, adapter: LoraAdapter) -> None:
        """The parameters of ``adapter`` replace initializers in ``run`` and ``run_with_ort_values``. Raises
        TypeError for other objects.
        """
        if not isinstance(adapter, LoraAdapter):
            raise TypeError(f"an active adapter is a LoraAdapter, not {type(adapter).__name__}")
        self._adapters.append(adapter)

    def adapted(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """``feed`` and the parameters of all active adapters; of equal names, the first counts."""
        if not self._adapters:
            return feed
        found = dict(feed)
        for adapter in reversed(self._adapters):
            found.update((name, value.held()) for name, value in adapter.parameters.items())
        return found


class OrtArenaCfg(_Fields):
    """How an arena grows. Kept; graphwright plans its arena when it compiles."""

    max_mem: int = 0
    arena_extend_strategy: int = -1
    initial_chunk_size_bytes: int = -1
    max_dead_bytes_per_chunk: int = -1
    initial_growth_chunk_size_bytes: int = -1
    max_power_of_two_extend_bytes: int = -1

    def __init__(self, *given: Any) -> None:
        super().__init__()
        sizes = (
            given[0] if given and isinstance(given[0], Mapping) else dict(zip(_ARENA, given, strict=False))
        )
        for name, size in sizes.items():
            setattr(self, name, size)


_ARENA = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
"""The fields that may be given in order."""
