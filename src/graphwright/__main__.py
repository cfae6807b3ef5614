"""``python -m graphwright``, and the command ``graphwright``."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""The exit status that shells give a command that SIGINT ended."""


def main() -> None:
    """Run the command. An interrupt ends it without a traceback, also while its modules are imported."""
    try:
        from graphwright.tools.cli import app

        app(prog_name="graphwright")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
