"""The exception classes of ONNX Runtime, and the class for each error of graphwright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from graphwright.errors import Diagnostic, FeedError, GraphwrightError, ModelError
from graphwright.runtime.executor import RunError

_PREFIX: Final = "[ONNXRuntimeError]"


class Status(Exception):
    """An error with the status code that ONNX Runtime's message of the class begins with."""

    code: ClassVar[int]
    label: ClassVar[str]

    def __init_subclass__(cls, code: int | None = None, label: str = "") -> None:
        """Users' own classes have the code of their base."""
        if code is not None:
            cls.code, cls.label = code, label

    def __init__(self, message: str = "") -> None:
        # the message of an error from another process has the code already
        if not message.startswith(_PREFIX):
            message = f"{self._start()}{message}"
        super().__init__(message)

    def without_code(self) -> str:
        """The message without the code and its label, as ``run_async`` reports it."""
        return str(self).removeprefix(self._start())

    def _start(self) -> str:
        return f"{_PREFIX} : {self.code} : {self.label} : "


class Fail(Status, code=1, label="FAIL"):
    """The model or a run failed for a reason that has no class of its own."""


class InvalidArgument(Status, code=2, label="INVALID_ARGUMENT"):
    """A feed, an output's name or a model does not fit."""


class NoSuchFile(Status, code=3, label="NO_SUCHFILE"):
    """The model's file does not exist."""


class NoModel(Status, code=4, label="NO_MODEL"):
    """No model was loaded. Never raised here."""


class EngineError(Status, code=5, label="ENGINE_ERROR"):
    """The engine failed. Never raised here."""


class RuntimeException(Status, code=6, label="RUNTIME_EXCEPTION"):
    """A kernel raised an exception."""


class InvalidProtobuf(Status, code=7, label="INVALID_PROTOBUF"):
    """The bytes are not an ONNX model."""


class ModelLoaded(Status, code=8, label="MODEL_LOADED"):
    """A session loads two models. Never raised here."""


class NotImplemented(Status, code=9, label="NOT_IMPLEMENTED"):
    """A part of ONNX Runtime that graphwright does not have."""


Unsupported = NotImplemented
"""The same, for modules in which the name would hide Python's own."""


class InvalidGraph(Status, code=10, label="INVALID_GRAPH"):
    """The graph breaks the standard: an unknown op or attribute."""


class EPFail(Status, code=11, label="EP_FAIL"):
    """An execution provider failed. Never raised here."""


class ModelLoadCanceled(Status, code=12, label="MODEL_LOAD_CANCELED"):
    """Loading was canceled. Never raised here."""


class ModelRequiresCompilation(Status, code=13, label="MODEL_REQUIRES_COMPILATION"):
    """A provider needs a compiled model. Never raised here."""


class NotFound(Status, code=14, label="NOT_FOUND"):
    """Something asked for is not there. Never raised here."""


class DeviceReset(Status, code=15, label="DEVICE_RESET"):
    """A device was reset. Never raised here."""


_OF_MODEL: Final[dict[str, type[Status]]] = {
    "dangling-name": InvalidArgument,
    "unsupported-op": InvalidGraph,
    "attribute": InvalidGraph,
    "schema": InvalidGraph,
}
"""By the code of the first fault of a model; all other codes are Fail."""

_STANDARD: Final = frozenset({"", "ai.onnx.ml", "ai.onnx.training"})
"""The domains in which ONNX's checker looks for an op. ONNX Runtime has another error for the others."""


@contextmanager
def translated(first: Callable[[], str] = str) -> Iterator[None]:
    """Raises graphwright's errors as ONNX Runtime's, with the same text and the original as the cause.

    ``first`` gives ONNX Runtime's own words, which precede the text of an error about feeds.
    """
    try:
        yield
    except FeedError as error:
        raise status_of(error, first()) from error
    except GraphwrightError as error:
        raise status_of(error) from error


def status_of(error: GraphwrightError, first: str = "") -> Status:
    """The exception that ONNX Runtime has for ``error``. Its message is ``first``, followed by that of
    ``error``.
    """
    op = foreign_op(error)
    if op:
        return Fail(f"Fatal error: {op}(-1) is not a registered function/op\n{error}")
    return _class_of(error, _first_of(error))(f"{first}{error}")


def foreign_op(error: BaseException | None) -> str:
    """The op ``DOMAIN:NAME`` outside the standard's domains that ``error`` says is unknown, if it does."""
    fault = _first_of(error) if isinstance(error, GraphwrightError) else Diagnostic("", "")
    domain, _, op = fault.message.partition(" ")[0].rpartition(".")
    return f"{domain}:{op}" if fault.code == "unsupported-op" and domain not in _STANDARD else ""


def _first_of(error: GraphwrightError) -> Diagnostic:
    return error.diagnostics[0] if error.diagnostics else Diagnostic("", "")


def _class_of(error: GraphwrightError, first: Diagnostic) -> type[Status]:
    if isinstance(error, FeedError):
        return InvalidArgument
    if isinstance(error, RunError):
        rejects = first.code == "kernel" or isinstance(error.__cause__, IndexError)
        return InvalidArgument if rejects else Fail
    if not isinstance(error, ModelError):
        return Fail
    if first.code == "file":
        return _of_file(first)
    if first.code == "opset" and first.where != "the model":
        return InvalidGraph
    if first.where == "the model's outputs":
        return Fail
    return _OF_MODEL.get(first.code, Fail)


def _of_file(fault: Diagnostic) -> type[Status]:
    if "no such file" in fault.message or "which is not there" in fault.message:
        return NoSuchFile
    nothing = ("has no", "is empty")
    return InvalidArgument if any(text in fault.message for text in nothing) else InvalidProtobuf
