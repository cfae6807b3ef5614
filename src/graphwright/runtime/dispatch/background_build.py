"""Compiles a package for one set of shapes in another process, so that runs do not wait for the GIL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from graphwright.config import Options, to_environment, variable
from graphwright.errors import Diagnostic, ToolchainError
from graphwright.package.package import Package
from graphwright.package.read import read_package
from graphwright.package.write import write_package
from graphwright.records import replace
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.executor import Executor, Shapes
from graphwright.support.interpreter import interpreter

Load = Callable[[Package], Executor | None]
"""Makes the executor of a package; None if the package cannot run here as it is."""
_COMMAND: Final = "graphwright.tools.specialize"


class Build:
    """One compilation in another process, which can be stopped; ``load`` makes the executor of its result."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def __call__(self, package: Package, shapes: Shapes, options: Options) -> Executor:
        """Compiles ``package`` for ``shapes`` alone. Raises GraphwrightError and OSError."""
        folder = Path(tempfile.mkdtemp(prefix="graphwright-hot-"))
        try:
            write_package(package, folder / "general.om")
            self._run([str(folder / "general.om"), str(folder / "variant.om"), json.dumps(shapes)], options)
            variant = read_package(folder / "variant.om", trust=True, use_mmap=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        executor = self._load(variant)
        if executor is None:
            raise ToolchainError(Diagnostic("target", "the variant is for another CPU"))
        if isinstance(executor, Cpu):
            executor.plan(shapes, options.threads)
        return executor

    def _run(self, arguments: list[str], options: Options) -> None:
        python = interpreter()
        if python is None:
            message = "variants are compiled in another Python process, which this application cannot start"
            raise ToolchainError(Diagnostic("specialize", message))
        path = os.pathsep.join(filter(None, sys.path))
        environment = {name: text for name, text in os.environ.items() if not name.startswith(variable(""))}
        environment |= to_environment(replace(options, specialize="none")) | {"PYTHONPATH": path}
        self._process = subprocess.Popen(
            [python, "-m", _COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if self._stopped:
            self._process.kill()
        _, text = self._process.communicate()
        if self._process.returncode:
            reason = text.strip() or f"its process ended with status {self._process.returncode}"
            raise ToolchainError(Diagnostic("specialize", reason))

    def stop(self) -> None:
        """Ends the process, so that the compilation fails soon."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()
