"""ONNX's backend interface, as ``onnxruntime.backend`` has it: ``prepare(model).run(inputs)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import onnx
from onnx import defs, helper
from onnx.backend.base import Backend, BackendRep

from graphwright.frontends.onnx.dtypes import onnx_number
from graphwright.ir.arrays import np
from graphwright.ir.dtypes import dtype_of
from graphwright.onnxruntime.environment import get_device
from graphwright.onnxruntime.options import RunOptions, SessionOptions
from graphwright.onnxruntime.session import InferenceSession

_Options = TypeVar("_Options", RunOptions, SessionOptions)


class OnnxRuntimeBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """A list of all outputs, in order. ``inputs`` are a list in the order of the model's, a dict by name,
        or the one input of a model that has no other; ``kwargs`` are fields of RunOptions.

        Raises RuntimeError for a list of another length, and as ``InferenceSession.run``.
        """
        names = [arg.name for arg in self._session.get_inputs()]
        return self._session.run(None, _feed(names, inputs), _with_fields(RunOptions(), kwargs))


class OnnxRuntimeBackend(Backend):
    """The backend that ``onnx.backend.test`` and scripts for several backends call."""

    allowReleasedOpsetsOnly = False  # ONNX Runtime's name; all opsets that can be read are run

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether ``device`` is the CPU; whether the model can be compiled shows in :meth:`prepare`."""
        return device is None or cls.supports_device(device)

    @classmethod
    def is_opset_supported(cls, model: onnx.ModelProto) -> tuple[bool, str]:
        """True: opsets that cannot be read are refused by :meth:`prepare`, with the reason."""
        return True, ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the CPU: ``CPU`` or ``CPU:0``."""
        return device.partition(":")[0] == get_device()

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OnnxRuntimeBackendRep:
        """``model``, compiled: a ModelProto, a path, bytes, a session, or what this returned before.

        ``kwargs`` are fields of SessionOptions. Raises RuntimeError for a device other than the CPU, and as
        InferenceSession.
        """
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"Incompatible device expected {device!r}, got {get_device()!r}")
        if isinstance(model, OnnxRuntimeBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OnnxRuntimeBackendRep(model)
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
        options = _with_fields(SessionOptions(), kwargs)
        return OnnxRuntimeBackendRep(InferenceSession(source, options, kwargs.get("providers")))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """``prepare(model).run(inputs)``."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | None = None,
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The outputs of one node, in the newest version of its op or at ``opset_version``; types of outputs
        are inferred. Raises as :meth:`run_model`.
        """
        names = [name for name in dict.fromkeys(node.input) if name]
        feed = _feed(names, inputs)
        graph = helper.make_graph(
            [node],
            "node",
            [_declared(name, value) for name, value in feed.items()],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        opset = helper.make_opsetid(node.domain, kwargs.get("opset_version") or _newest(node))
        return cls.run_model(helper.make_model(graph, opset_imports=[opset]), feed, device, **kwargs)


def _feed(names: Sequence[str], inputs: Any) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if len(given) != len(names):
        raise RuntimeError(f"The model has {len(names)} inputs, {len(given)} are given: {', '.join(names)}")
    return dict(zip(names, given, strict=True))


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    array = np.asarray(value)
    return helper.make_tensor_value_info(name, onnx_number(dtype_of(array)), array.shape)


def _newest(node: onnx.NodeProto) -> int:
    if not defs.has(node.op_type, node.domain):
        return 1
    version: int = defs.get_schema(node.op_type, node.domain).since_version
    return version


def _with_fields(options: _Options, given: Mapping[str, Any]) -> _Options:
    """``options`` with the fields of ``given`` that they have; others belong to other calls."""
    for name, value in given.items():
        if hasattr(type(options), name):
            setattr(options, name, value)
    return options
