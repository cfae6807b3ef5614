"""``python -m graphwright``, and the commands ``graphwright`` and ``graph-autofusion``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130
"""The exit status that shells give a command that SIGINT ended."""


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


def _end(number: int, frame: object) -> NoReturn:
    """Ends as shells report the signal, and stops compilers and removes temporary files on the way."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _end_at_once(number: int, frame: object) -> NoReturn:
    """Ends as shells report the signal. An exception in place of this would crash the extension module that
    is being imported, such as onnx's.
    """
    os._exit(128 + number)


def main() -> None:
    """Runs the command. A signal ends it without a traceback, also while its modules are imported."""

    def load() -> Callable[..., None]:
        from graphwright.tools.cli import app

        return app

    _run(load, "graphwright")


def autofusion() -> None:
    """Runs the command ``graph-autofusion``, as :func:`main` does."""

    def load() -> Callable[..., None]:
        from graphwright.tools.graph_autofusion import app

        return app

    _run(load, "graph-autofusion")


def _run(load: Callable[[], Callable[..., None]], name: str) -> None:
    handled = [number for number in ENDING if signal.getsignal(number) in DEFAULTS]  # nohup ignores SIGHUP
    for number in handled:
        signal.signal(number, _end_at_once)
    app = load()
    for number in handled:
        signal.signal(number, _end)
    try:
        app(prog_name=name)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
