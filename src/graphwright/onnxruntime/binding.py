"""IOBinding: inputs and outputs bound to memory, for runs without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from graphwright.ir.arrays import Array, np
from graphwright.onnxruntime.devices import OrtDevice, require_cpu
from graphwright.onnxruntime.values import OrtValue, OrtValueVector, array_at, held
from graphwright.runtime.feeds.bindings import tensors_of


class IOBinding:
    """The memory of inputs and outputs of a session, by name; made by ``InferenceSession.io_binding``."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._names = {arg.name for arg in session.get_inputs()}
        self._names |= {arg.name for arg in session.get_overridable_initializers()}
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds input ``name`` to an array, as it is when a run begins. Raises RuntimeError."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RuntimeError(
                f"input {name!r} is bound to a NumPy array, not to {type(arr_on_cpu).__name__}"
            )
        self._bind(name, arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Binds input ``name`` to memory at an address. Raises RuntimeError for a device other than
        the CPU.
        """
        require_cpu(device_type, device_id)
        self._bind(name, array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds input ``name`` to a value. Raises RuntimeError, and TypeError for other types."""
        self._bind(name, held(ortvalue, f"input {name!r}"))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds output ``name`` to memory at an address, or to memory of its own.

        Memory of its own is the CPU's for every device, as in ONNX Runtime without that device. Raises
        ValueError for an address without type and shape, RuntimeError for an address on another device, and
        Exception for an unknown device.
        """
        if buffer_ptr is None:
            OrtDevice.make(device_type, device_id)  # rejects unknown names
            self._outputs[name] = None
            return
        require_cpu(device_type, device_id)
        if element_type is None or shape is None:
            raise ValueError("buffer_ptr requires element_type and shape")
        self._outputs[name] = OrtValue(array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds output ``name`` to the memory of a value. Raises TypeError for other types."""
        held(ortvalue, f"output {name!r}")
        self._outputs[name] = ortvalue

    def run(self, run: Callable[[list[str], Mapping[str, Any], Mapping[str, Array]], list[Any]]) -> None:
        """Calls ``run(names, feed, out)`` and copies outputs that it did not write to their memory, ``out``.
        Raises RuntimeError for memory that does not fit.
        """
        if not self._outputs:
            raise RuntimeError("At least one output should be requested: bind_output(name)")
        found = run(list(self._outputs), self._inputs, self._memory())
        bound = self._outputs.items()
        self._results = [_placed(name, v, target) for v, (name, target) in zip(found, bound, strict=True)]

    def _memory(self) -> dict[str, Array]:
        """The memory of outputs that overlaps no input and no other output: a run may write to it."""
        used = list(tensors_of(self._inputs.values()))
        found: dict[str, Array] = {}
        for name, target in self._outputs.items():
            if target is None or not target.is_tensor():
                continue
            memory = target.array()
            if not any(np.may_share_memory(memory, other) for other in used):
                found[name] = memory
            used.append(memory)
        return found

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """As :meth:`get_outputs`."""
        return OrtValueVector(self._results)

    @property
    def _iobinding(self) -> SessionIOBinding:
        """The native binding, which ONNX Runtime's Python class wraps and some scripts call."""
        return SessionIOBinding(self)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays of their own."""
        return [_copied(value.held()) for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Unbinds all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbinds all outputs, and forgets those of the last run."""
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Does nothing: copies on the CPU are done when the call returns."""

    def synchronize_outputs(self) -> None:
        """Does nothing: as :meth:`synchronize_inputs`."""

    def _bind(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise RuntimeError(f"there is no input {name!r}: the inputs are {', '.join(sorted(self._names))}")
        self._inputs[name] = value


class SessionIOBinding:
    """ONNX Runtime's native binding: an IOBinding whose methods take an OrtDevice for its name and number."""

    def __init__(self, bound: Any) -> None:
        """``bound``: a session, or a binding."""
        self.binding = bound if isinstance(bound, IOBinding) else IOBinding(bound)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binding, name)

    def bind_input(self, name: str, place: Any, *memory: Any) -> None:
        """Binds input ``name`` to an array, or to ``memory`` of a device: element type, shape and address."""
        if not isinstance(place, OrtDevice):
            self.binding.bind_cpu_input(name, place)
            return
        self.binding.bind_input(name, place.name(), place.device_id(), *memory)

    def bind_output(self, name: str, device: OrtDevice, *memory: Any) -> None:
        """Binds output ``name`` to ``memory`` of a device, or to memory of its own."""
        self.binding.bind_output(name, device.name(), device.device_id(), *memory)


def _placed(name: str, value: Any, target: OrtValue | None) -> OrtValue:
    """``value``, in the memory of ``target`` if there is one."""
    if target is None:
        return OrtValue(value)
    memory = target.array()
    if value is memory:
        return target
    if memory.shape != value.shape:
        _refuse_memory(name, f"has shape {list(value.shape)}, the memory bound to it {list(memory.shape)}")
    if memory.dtype != value.dtype:
        _refuse_memory(name, f"is {value.dtype}, the memory bound to it {memory.dtype}")
    np.copyto(memory, value)
    return target


def _refuse_memory(name: str, what: str) -> NoReturn:
    raise RuntimeError(f"output {name!r} {what}: bind memory of the type and shape of the output")


def _copied(value: Any) -> Any:
    copied: Array | Any = value.copy() if isinstance(value, np.ndarray) else value
    return copied
