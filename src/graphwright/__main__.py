"""``python -m graphwright``, and the command ``graphwright``."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

INTERRUPTED = 130
"""The exit status that shells give a command that SIGINT ended."""


def _end(number: int, frame: object) -> NoReturn:
    """End as shells report the signal, and stop compilers and remove temporary files on the way."""
    sys.exit(128 + number)


def main() -> None:
    """Run the command. A signal ends it without a traceback, also while its modules are imported."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _end)
    try:
        from graphwright.tools.cli import app

        app(prog_name="graphwright")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
