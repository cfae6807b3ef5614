"""Options: defaults, the environment, and all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphwright.config import Options, table
from graphwright.errors import OptionError
from graphwright.records import replace


def test_environment_and_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_CC", "clang")
    monkeypatch.setenv("GRAPHWRIGHT_THREADS", "3")
    monkeypatch.setenv("GRAPHWRIGHT_VERIFY", "on")
    monkeypatch.setenv("GRAPHWRIGHT_CACHE_DIR", "/var/kernels")
    options = Options.from_environment(threads=5)
    assert (options.cc, options.threads, options.verify) == ("clang", 5, True)
    assert options.cache_folder == Path("/var/kernels")


def test_an_empty_environment_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THREADS", "CACHE_DIR", "ISA", "VERIFY", "PLUGINS", "KEYS"):
        monkeypatch.setenv(f"GRAPHWRIGHT_{name}", "")
    assert Options.from_environment(threads=5) == replace(Options.from_environment(), threads=5)
    assert Options.from_environment().threads == 0


def test_all_faults_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHWRIGHT_THREADS", "many")
    monkeypatch.setenv("GRAPHWRIGHT_ISA", "v9")
    with pytest.raises(OptionError) as caught:
        Options.from_environment(numerics="fast", speed=11)
    text = str(caught.value)
    for part in ("GRAPHWRIGHT_THREADS='many'", "GRAPHWRIGHT_ISA='v9'", "numerics='fast'", "no option speed"):
        assert part in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": -1},
        {"threads": True},
        {"threads": 10**10},
        {"plan_cache": 2**40},
        {"isa": ""},
        {"cache_limit": "7"},
        {"verify": 2},
    ],
)
def test_wrong_values_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]  # that is what is wrong


def test_folders_follow_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHWRIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert Options().cache_folder == Path("/caches/graphwright")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert Options().cache_folder == Path("/home/someone/.cache/graphwright")


def test_the_key_contains_the_options_that_affect_code() -> None:
    assert {"isa", "numerics"} <= Options().key().keys()
    assert not {"cc", "threads", "cache_dir", "cache_limit"} & Options().key().keys()
    assert table()["cc"][1] == "GRAPHWRIGHT_CC"
