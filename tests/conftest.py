"""Options of the whole suite."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

SECONDS: Final = "graphwright/seconds"
"""Where pytest's cache has the seconds of each file in the last run of several processes."""
_seconds: Counter[str] = Counter()


def pytest_configure() -> None:
    """Enables interrupts for the programs that tests start, as shells disable them for background jobs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of tests start Python: it compiles the sources once, where the environment forbids that too.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # A busy machine is no fault.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


@pytest.fixture(scope="session", autouse=True)
def _no_rates_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiles without the rates that ``graphwright calibrate`` measured on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _tuning_records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiles without the user's measurements of ``--tune``, which are stored with the compiled kernels that
    tests share. Returns the folder of the tests' own.
    """
    folder = tmp_path_factory.mktemp("tuning")
    with pytest.MonkeyPatch.context() as patch:
        of_options = property(lambda options: (options.cache_dir or folder) / "tuning")
        patch.setattr("graphwright.config.Options.tuning_folder", of_options)
        yield folder / "tuning"


@pytest.fixture(autouse=True)
def _no_tuning_record_of_another_test(_tuning_records: Path) -> Iterator[None]:
    yield
    if _tuning_records.exists():
        shutil.rmtree(_tuning_records)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives all processes the same times, because they must list the tests in the same order."""
    cache = getattr(node.config, "cache", None)
    node.workerinput[SECONDS] = cache.get(SECONDS, {}) if cache else {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run of several processes, the files that took longest in the last one start first: no process is
    left with a long one at the end. Before the first such run, files with long tests start first, and then
    those with many tests.
    """
    if not hasattr(config, "workerinput"):
        return
    counts = Counter(map(_file_of, items))
    long = {_file_of(item) for item in items if item.get_closest_marker("long")}
    seconds: dict[str, float] = config.workerinput[SECONDS]

    def order(item: pytest.Item) -> tuple[float, bool, int]:
        file = _file_of(item)
        return -seconds.get(file, 0.0), file not in long, -counts[file]

    items.sort(key=order)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stores the seconds of files in the process that started the others."""
    cache = getattr(session.config, "cache", None)  # absent with -p no:cacheprovider
    if cache and session.config.getoption("dist", "no") != "no":
        cache.set(SECONDS, {**cache.get(SECONDS, {}), **_seconds})


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_collection_finish() -> None:
    """Collections of garbage do not visit the modules and the many thousand tests each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a file with the text that it should have; ``--update-golden`` writes the text."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert text == path.read_text()

    return compare


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what passes and commands give to the golden files"
    )
