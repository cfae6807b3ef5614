"""Sessions accept, warn of and reject the providers that ONNX Runtime's sessions do."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import pytest

import graphwright.onnxruntime as ours
from graphwright.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from tests.onnxruntime.support import FEED, same, sums


@pytest.mark.parametrize(
    "providers",
    [
        None,
        ["CPUExecutionProvider"],
        [("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})],
        ["CUDAExecutionProvider", "CPUExecutionProvider"],
        ["NoSuchProvider"],
        [3],
        "CPUExecutionProvider",
    ],
)
@pytest.mark.filterwarnings("ignore:.*provider")
def test_providers_are_those_of_onnx_runtime(providers: Any) -> None:
    def made(engine: ModuleType) -> Any:
        session = engine.InferenceSession(sums(), None, providers)
        return session.get_providers(), session.get_provider_options(), session.run(None, FEED)

    same(made)


def test_providers_that_are_not_here_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="provider 'CUDAExecutionProvider' is not in available"):
        ours.InferenceSession(sums(), providers=["CUDAExecutionProvider"])
    with pytest.warns(UserWarning, match="same length"):
        ours.InferenceSession(sums(), providers=["CPUExecutionProvider"], provider_options=[])


@pytest.mark.parametrize(
    ("providers", "options"),
    [
        (None, None),
        (["A", ("B", {"device_id": 1, 2: True}), "A"], None),
        (("CPUExecutionProvider", "B"), [{"a": 1}, {}]),
        (["A"], []),
        ([("A", {})], [{}]),
        (["A"], ["a=1"]),
        (["A"], {"A": {}}),
        ([("A",)], None),
        ({"A"}, None),
    ],
)
def test_providers_are_split_into_names_and_options(providers: Any, options: Any) -> None:
    def split(engine: ModuleType) -> Any:
        collection = importlib.import_module(f"{engine.__name__}.capi.onnxruntime_inference_collection")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = collection.check_and_normalize_provider_args(providers, options, ["CPUExecutionProvider"])
        return *found, len(caught)

    same(split)


@pytest.mark.parametrize("value", ["0", "1", "true"])
@pytest.mark.parametrize("name", [None, "CPUExecutionProvider", "CUDAExecutionProvider"])
@pytest.mark.filterwarnings("ignore:.*provider")
def test_the_cpu_as_a_substitute_can_be_rejected(name: str | None, value: str) -> None:
    def made(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", value)
        try:
            return engine.InferenceSession(sums(), options, name and [name]).get_providers()
        except Exception as error:
            return type(error).__name__, str(error)[:120]

    found = same(made)
    assert found == ["CPUExecutionProvider"] or value == "1"


@pytest.mark.parametrize(
    "given", [["CPUExecutionProvider"], [("CPUExecutionProvider", {})], ["NoSuch"], None, []]
)
@pytest.mark.filterwarnings("ignore:.*provider")
def test_providers_that_are_set_later(pair: dict[ModuleType, Any], given: Any) -> None:
    def put(engine: ModuleType) -> Any:
        pair[engine].set_providers(given)
        return pair[engine].get_providers(), pair[engine]._enable_fallback

    same(put)


def cpu(engine: ModuleType) -> Any:
    """The device of the CPU provider."""
    return next(d for d in engine.get_ep_devices() if d.ep_name == "CPUExecutionProvider")


def test_the_cpu_is_a_device_of_its_provider() -> None:
    def described(engine: ModuleType) -> Any:
        device = cpu(engine)
        memory = device.memory_info(engine.OrtDeviceMemoryType.DEFAULT)
        hardware = (str(device.device.type), device.device.device_id, dict(device.device.metadata))
        return dict(device.ep_metadata), dict(device.ep_options), memory, hardware

    hardware = ("OrtHardwareDeviceType.CPU", 0, {})
    assert same(described) == [{"version": ours.__version__}, {}, None, [*hardware]]
    assert [str(d.type) for d in our_state.get_hardware_devices()] == ["OrtHardwareDeviceType.CPU"]
    assert same(lambda engine: cpu(engine).create_sync_stream()) == "RuntimeError"


def test_sessions_take_a_provider_by_its_device() -> None:
    def ran(engine: ModuleType) -> Any:
        options = engine.SessionOptions()
        options.add_provider_for_devices([cpu(engine)], {"an option": "its value"})
        session = engine.InferenceSession(sums(), options)
        places = [device.ep_name for device in session.get_input_epdevices()]
        return options.has_providers(), session.get_providers(), places, session.run(None, FEED)

    assert same(ran)[:3] == [True, ["CPUExecutionProvider"], ["CPUExecutionProvider"] * 2]
    for wrong in ([], [1]):
        name = same(lambda engine, wrong=wrong: engine.SessionOptions().add_provider_for_devices(wrong, {}))
        assert name in ("InvalidArgument", "TypeError")
