"""ONNX Runtime's exception classes, and which of them stands for each of graphwright's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from graphwright.errors import Diagnostic, FeedError, GraphwrightError, ModelError
from graphwright.runtime.executor import RunError


class Status(Exception):
    """An error with the status code that ONNX Runtime's message of the class begins with."""

    code: ClassVar[int] = 1
    label: ClassVar[str] = "FAIL"

    def __init__(self, message: str = "") -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.label} : {message}")


class Fail(Status):
    """The model or a run failed for a reason that has no class of its own."""


class InvalidArgument(Status):
    """A feed, an output's name or a model does not fit."""

    code, label = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status):
    """The model's file does not exist."""

    code, label = 3, "NO_SUCHFILE"


class NoModel(Status):
    """No model was loaded. Never raised here."""

    code, label = 4, "NO_MODEL"


class EngineError(Status):
    """The engine failed. Never raised here."""

    code, label = 5, "ENGINE_ERROR"


class RuntimeException(Status):
    """A kernel raised an exception."""

    code, label = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status):
    """The bytes are not an ONNX model."""

    code, label = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status):
    """A session loads two models. Never raised here."""

    code, label = 8, "MODEL_LOADED"


class NotImplemented(Status):
    """A part of ONNX Runtime that graphwright does not have."""

    code, label = 9, "NOT_IMPLEMENTED"


Unsupported = NotImplemented
"""The same, for modules in which the name would hide Python's own."""


class InvalidGraph(Status):
    """The graph breaks the standard: an unknown op or attribute."""

    code, label = 10, "INVALID_GRAPH"


class EPFail(Status):
    """An execution provider failed. Never raised here."""

    code, label = 11, "EP_FAIL"


class ModelLoadCanceled(Status):
    """Loading was cancelled. Never raised here."""

    code, label = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(Status):
    """A provider needs a compiled model. Never raised here."""

    code, label = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(Status):
    """Something asked for is not there. Never raised here."""

    code, label = 14, "NOT_FOUND"


class DeviceReset(Status):
    """A device was reset. Never raised here."""

    code, label = 15, "DEVICE_RESET"


_OF_MODEL: Final[dict[str, type[Status]]] = {
    "dangling-name": InvalidArgument,
    "unsupported-op": InvalidGraph,
    "attribute": InvalidGraph,
}
"""By the code of the first fault of a model; all other codes are Fail."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise graphwright's errors as ONNX Runtime's, with the same text and the original as the cause."""
    try:
        yield
    except GraphwrightError as error:
        raise status_of(error) from error


def status_of(error: GraphwrightError) -> Status:
    """The exception that ONNX Runtime has for ``error``."""
    return _class_of(error, error.diagnostics[0] if error.diagnostics else Diagnostic("", ""))(str(error))


def _class_of(error: GraphwrightError, first: Diagnostic) -> type[Status]:
    if isinstance(error, FeedError):
        return InvalidArgument
    if isinstance(error, RunError):
        return InvalidArgument if first.code == "kernel" else Fail
    if not isinstance(error, ModelError):
        return Fail
    if first.code == "file":
        return _of_file(first)
    if first.code == "opset" and first.where != "the model":
        return InvalidGraph
    return _OF_MODEL.get(first.code, Fail)


def _of_file(fault: Diagnostic) -> type[Status]:
    if "no such file" in fault.message:
        return NoSuchFile
    nothing = ("has no", "is empty")
    return InvalidArgument if any(text in fault.message for text in nothing) else InvalidProtobuf
