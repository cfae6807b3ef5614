"""Sessions accept, warn of and reject the providers that ONNX Runtime's sessions do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import graphwright.onnxruntime as ours
from tests.dropin.support import FEED, same, sums


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
