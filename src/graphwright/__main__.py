"""``python -m graphwright``."""

from graphwright.tools.cli import app

app(prog_name="graphwright")
