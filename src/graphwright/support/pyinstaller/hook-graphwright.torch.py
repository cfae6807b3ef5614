"""What applications that compile PyTorch models need: importers of operators are found by their folders."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("graphwright.torch") + collect_submodules("graphwright.frontends.torch")
