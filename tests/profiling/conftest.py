from __future__ import annotations

from tests.package.conftest import classifier, model, options, package_path

__all__ = ["classifier", "model", "options", "package_path"]
