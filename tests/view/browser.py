"""A headless Chromium that tests and benchmarks drive through the pipes of its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
_WITH_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts the browser with the pipes where it looks for them."""
SECONDS = 60.0
"""What the browser may take for one answer."""


def browser_path() -> str | None:
    """The program; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """An error of the browser, or of a script in it."""


class Browser:
    """A tab of the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._count, self._session = 0, ""
        self._read = b""
        self.complaints: list[str] = []
        """Errors of scripts, requests that the page's policy refused, and requests to the network."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, /, **arguments: Any) -> Any:
        """The answer to one request. Raises BrowserError."""
        self._count += 1
        request: dict[str, Any] = {"id": self._count, "method": method, "params": arguments}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            self._note(answer)

    def size(self, width: int, height: int) -> None:
        """The size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, **features: str) -> None:
        """Sets media features for style sheets, such as ``prefers_color_scheme="dark"``."""
        given = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=given)

    def open(self, page: Path) -> None:
        """Load a file, to the end of its scripts and its first frame."""
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait("document.readyState === 'complete' && globalThis.graphwright !== undefined")
        self.wait("graphwright.page.painted > 0")

    def run(self, script: str) -> Any:
        """The value of an expression; of a promise what it becomes. Raises BrowserError."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression holds. Raises BrowserError."""
        end = time.monotonic() + SECONDS
        while not self.run(condition):
            if time.monotonic() > end:
                raise BrowserError(f"{condition} did not come true; {self.complaints}")
            time.sleep(0.02)

    def key(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        typed: Mapping[str, str] = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Click with the left button; twice is a double click."""
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)

    def screenshot(self) -> bytes:
        """Returns the window as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def pdf(self) -> bytes:
        """Returns the page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> Any:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], SECONDS)
            piece = os.read(self._from, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError("the browser does not answer")
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(event["params"]["exceptionDetails"])[:500])
            case "Log.entryAdded":
                self.complaints.append(event["params"]["entry"]["text"])
            case "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                if not url.startswith(("file:", "about:", "data:")):
                    self.complaints.append(f"a request for {url}")


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the context."""
    path = browser_path()
    if path is None:
        raise BrowserError(f"none of {', '.join(NAMES)} is installed")
    (theirs_in, to_browser), (from_browser, theirs_out) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="graphwright-browser-", ignore_cleanup_errors=True) as profile:
        command = [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", _WITH_PIPES, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_browser)
            os.close(from_browser)
