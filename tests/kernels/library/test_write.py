"""The sources of the kernel library are written while the package is built."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["graphwright._native"] = None  # an import raises ModuleNotFoundError
from graphwright.kernels.library.write import kernel_modules
print(len(kernel_modules()))
"""


def test_kernels_are_imported_before_the_native_module_is_built() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 40
