"""``python -m graphwright``, and the commands ``graphwright`` and ``graph-autofusion``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

INTERRUPTED = 130
"""The exit status that shells give a command that SIGINT ended."""


def _end(number: int, frame: object) -> NoReturn:
    """Ends as shells report the signal, and stops compilers and removes temporary files on the way."""
    sys.exit(128 + number)


def main() -> None:
    """Runs the command. A signal ends it without a traceback, also while its modules are imported."""

    def command() -> None:
        from graphwright.tools.cli import app

        app(prog_name="graphwright")

    _run(command)


def autofusion() -> None:
    """Runs the command ``graph-autofusion``, as :func:`main` does."""

    def command() -> None:
        from graphwright.tools.graph_autofusion import app

        app(prog_name="graph-autofusion")

    _run(command)


def _run(command: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _end)
    try:
        command()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
