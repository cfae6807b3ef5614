"""Options of the whole suite."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    """Let programs that tests interrupt see it: a shell has its jobs in the background ignore interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of tests start Python: it compiles the sources once, where the environment forbids that too.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def _no_rates_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What models compile to does not depend on what ``graphwright calibrate`` measured here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_tuning_record_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nor on what ``--tune`` measured here, which lies beside compiled kernels that tests share."""
    folder = tmp_path_factory.mktemp("tuning")
    with pytest.MonkeyPatch.context() as patch:
        place = property(lambda options: (options.cache_dir or folder) / "tuning")
        patch.setattr("graphwright.config.Options.tuning_folder", place)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what passes give to tests/golden/*/*.expected"
    )
