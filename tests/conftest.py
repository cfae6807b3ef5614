"""Options of the whole suite."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    """Let programs that tests interrupt see it: a shell has its jobs in the background ignore interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what passes give to tests/golden/*/*.expected"
    )
