"""``python -m benchmarks.models list`` and ``python -m benchmarks.models fetch all|NAME...``."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks.models import MODELS, cache


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models", description="The zoo of development models."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names, sizes to test, and whether each is cached")
    fetch = commands.add_parser("fetch", help="fetch or build models that are not cached")
    fetch.add_argument("names", nargs="+", choices=["all", *MODELS], metavar="all|NAME")
    fetch.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="copy the model, which must be one, there"
    )
    chosen = parser.parse_args()
    if chosen.command == "list":
        for model in MODELS.values():
            cached = "cached" if model.cached_file().exists() else "absent"
            print(f"{model.name:20} {cached:7} {' '.join(model.variants)}")
        print(f"cache: {cache.root()}")
        return
    names = list(MODELS) if "all" in chosen.names else chosen.names
    if chosen.output is not None and len(names) != 1:
        parser.error(f"--output takes one model, not {len(names)}")
    for name in names:
        path = MODELS[name].path()
        if chosen.output is not None:
            path = Path(shutil.copyfile(path, chosen.output))
        print(f"{name:20} {path}", flush=True)


if __name__ == "__main__":
    main()
