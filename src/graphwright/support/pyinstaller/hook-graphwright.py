"""What an application needs beyond the imports that PyInstaller sees: ops, kernels and targets are found by
their folders, and some modules are imported by name on demand.

An application that compiles PyTorch models imports ``graphwright.torch`` itself, so that others do not
contain PyTorch.
"""

from PyInstaller.utils.hooks import (
    collect_data_files,
    collect_dynamic_libs,
    collect_submodules,
    copy_metadata,
)

_OF_TORCH = ("graphwright.torch", "graphwright.frontends.torch")
_BY_NAME = ["dataclasses", "difflib", "importlib.metadata", "logging", "ml_dtypes", "numpy", "tomllib"]

hiddenimports = _BY_NAME + collect_submodules("graphwright", lambda name: not name.startswith(_OF_TORCH))
datas = collect_data_files("graphwright") + copy_metadata("graphwright")
binaries = collect_dynamic_libs("graphwright")
