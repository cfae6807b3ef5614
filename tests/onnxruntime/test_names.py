"""Every public name of ONNX Runtime exists here, or is refused with a reason."""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType
from typing import Any

import onnxruntime as theirs
import pytest
from onnxruntime.capi import onnxruntime_inference_collection, onnxruntime_pybind11_state

import graphwright.onnxruntime as ours
from graphwright.onnxruntime.capi import onnxruntime_inference_collection as our_collection
from graphwright.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from graphwright.onnxruntime.errors import Unsupported
from graphwright.onnxruntime.refused import REFUSED, refused

NOT_FOR_USERS = {
    # names that onnxruntime's modules import for themselves
    *("contextlib", "onnxruntime_validation", "annotations", "collections", "os", "typing", "warnings"),
    *("weakref", "IntEnum", "Callable", "Sequence", "Any", "np", "C"),
    # helpers without a meaning outside of these modules
    *("check_and_normalize_provider_args", "get_vendor_id_for_device_type"),
    *("make_get_initializer_location_func_wrapper", "GetInitializerLocationFunc"),
    "GetInitializerLocationWrapperFunc",
}
MODULES = [
    (theirs, ours),
    (onnxruntime_pybind11_state, our_state),
    (onnxruntime_inference_collection, our_collection),
]


def public(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_") and name not in NOT_FOR_USERS]


@pytest.mark.parametrize(("module", "mine"), MODULES, ids=lambda module: module.__name__)
def test_every_name_of_a_module_is_here(module: ModuleType, mine: ModuleType) -> None:
    assert [name for name in public(module) if not hasattr(mine, name)] == []


def methods() -> list[tuple[str, str]]:
    """All public attributes of the supported classes."""
    return [
        (name, attribute)
        for name in public(theirs)
        if inspect.isclass(getattr(theirs, name)) and name not in REFUSED and name != "SessionIOBinding"
        for attribute in dir(getattr(theirs, name))
        if not attribute.startswith("_") and attribute not in ("name", "value")
    ]


def test_every_method_is_here() -> None:
    """SessionIOBinding is the native class behind IOBinding, which users do not create."""
    found = methods()
    assert ("InferenceSession", "run") in found and ("OrtValue", "numpy") in found
    lacking = [f"{cls}.{name}" for cls, name in found if not _has(getattr(ours, cls), name)]
    assert lacking == []


def _has(cls: Any, name: str) -> bool:
    return hasattr(cls, name) or name in getattr(cls, "__record__", ())


def test_methods_take_the_same_arguments() -> None:
    for cls in ("InferenceSession", "IOBinding", "OrtValue", "OrtDevice"):
        for name, method in inspect.getmembers(getattr(theirs, cls), inspect.isroutine):
            if not name.startswith("_") or name == "__init__":
                mine = inspect.signature(getattr(getattr(ours, cls), name))
                for parameter in inspect.signature(method).parameters.values():
                    variable = any(p.kind is p.VAR_POSITIONAL for p in mine.parameters.values())
                    inner = (cls, name) in (("OrtValue", "__init__"), ("OrtDevice", "__init__"))
                    assert inner or variable or parameter.name in mine.parameters, (cls, name, parameter)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_unsupported_names_raise_an_error_with_the_reason(name: str) -> None:
    """A rejected name can be imported and used in annotations; a call of it says what to use instead."""
    stand_in = getattr(our_state if hasattr(onnxruntime_pybind11_state, name) else ours, name)
    assert not isinstance(3, stand_in)
    with pytest.raises(Unsupported, match=f"onnxruntime.{name} is not in graphwright: .{{20}}"):
        stand_in()
    with pytest.raises(Unsupported, match=f"{name}.anything"):
        stand_in.anything  # noqa: B018


def test_all_unsupported_names_exist_in_onnx_runtime() -> None:
    known = {*dir(theirs), *dir(onnxruntime_pybind11_state)}
    assert REFUSED.keys() - known == set()
    with pytest.raises(AttributeError, match="no attribute 'InferenceSesion'"):
        refused("InferenceSesion")
    assert {"SparseTensor", "InferenceSession"} <= set(dir(ours))


@pytest.mark.parametrize(
    "name", ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtMemType", "OrtAllocatorType"]
)
def test_enumerations_have_the_same_values(name: str) -> None:
    mine, wanted = getattr(ours, name), getattr(theirs, name).__members__
    assert {key: int(value) for key, value in mine.__members__.items()} == {
        key: int(value.value) for key, value in wanted.items()
    }
    assert [str(value) for value in mine.__members__.values()] == [str(value) for value in wanted.values()]


def test_exceptions_are_not_python_s_own() -> None:
    """``except RuntimeError`` catches none of them, as in ONNX Runtime."""
    for name in public(onnxruntime_pybind11_state):
        cls = getattr(onnxruntime_pybind11_state, name)
        if inspect.isclass(cls) and issubclass(cls, Exception):
            mine = getattr(our_state, name)
            assert issubclass(mine, Exception) and not issubclass(mine, RuntimeError | ValueError)


def test_exceptions_may_be_made_subclassed_and_sent_elsewhere() -> None:
    class Own(our_state.InvalidArgument):  # type: ignore[misc]  # a name of a module that mypy does not follow
        """A class that a package derives."""

    made = Own("no such shape")
    assert str(made) == "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : no such shape"
    for error in (our_state.Fail("x"), our_state.NoSuchFile("y")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_parts_that_are_not_here_say_so_as_attributes() -> None:
    for name in ("quantization", "tools", "datasets"):
        with pytest.raises(AttributeError, match=f"has no {name}: it runs models"):
            getattr(ours, name)


def test_functions_about_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert ours.get_device() == theirs.get_device()
    assert ours.get_available_providers() == ["CPUExecutionProvider"]
    assert set(theirs.get_all_providers()) <= set(ours.get_all_providers())
    assert ours.__version__ == ours.get_version_string() and "graphwright" in ours.get_build_info()
    assert ours.__version__ == theirs.__version__
    for nothing in (
        lambda engine: engine.set_default_logger_severity(3),
        lambda engine: engine.set_default_logger_verbosity(0),
        lambda engine: engine.set_default_logger_callback(print, severity=4),
        lambda engine: engine.set_default_logger_callback(None),
        lambda engine: engine.set_seed(3),
        lambda engine: engine.disable_telemetry_events(),
        lambda engine: engine.preload_dlls(),
        lambda engine: engine.has_collective_ops(),
    ):
        assert nothing(ours) == nothing(theirs)
    ours.print_debug_info()
    assert "graphwright" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="from 0 to 4, not 9"):
        ours.set_default_logger_severity(9)
    for engine in (ours, theirs):
        for wrong in ({"callback": print, "severity": 5}, {"callback": "no function"}):
            with pytest.raises(RuntimeError):
                engine.set_default_logger_callback(**wrong)
