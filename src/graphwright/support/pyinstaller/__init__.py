"""PyInstaller finds this folder by the entry point ``hook-dirs``, and bundles what the hooks in it list."""

from __future__ import annotations


def hook_folders() -> list[str]:
    """The folder of ``hook-graphwright.py``."""
    return list(__path__)
