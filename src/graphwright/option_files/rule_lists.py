"""The values of the option ``fusion_rules``: a list of names, or a TOML file with one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

from graphwright.option_files.text import option_text
from graphwright.support.message_text import did_you_mean

KEYS: Final = ("rules", "off")
"""The keys of a file: ``rules``, which is "all", "none" or a list of names, and ``off``, a list of names."""
REQUIRED: Final = (
    "must be all, none, a comma-separated list of names (-NAME turns a rule off), or a .toml file"
)


def read_rules(text: str) -> str:
    """Normalizes ``text``, a list or the path of a file, to a list separated by commas, in which disabled
    names have a minus sign.

    A list of only disabled names enables all others. Raises ValueError with the reason. It is not checked
    whether rules of these names exist.
    """
    if text.endswith(".toml"):
        return _read_file(Path(text).expanduser())
    words = [word.strip() for word in text.split(",")]
    if not all(word.removeprefix("-").isidentifier() for word in words):
        raise ValueError(REQUIRED)
    return ",".join(["all", *words] if words[0].startswith("-") else words)


def _read_file(path: Path) -> str:
    try:
        table = importlib.import_module("tomllib").loads(option_text(path))
    except OSError as error:
        raise ValueError(f"{error.strerror or error}") from error
    except ValueError as error:  # TOML, or UTF-8
        raise ValueError(f"is not TOML: {error}") from error
    faults = [_unknown_key(key) for key in table if key not in KEYS]
    rules, off = table.get("rules", "all"), table.get("off", [])
    if rules not in ("all", "none") and not _are_names(rules):
        faults.append('rules must be "all", "none" or a list of names')
    if not _are_names(off):
        faults.append("off must be a list of names")
    if faults:
        raise ValueError("; ".join(faults))
    names = [rules] if isinstance(rules, str) else rules or ["none"]
    return ",".join([*names, *(f"-{name}" for name in off)])


def _unknown_key(key: str) -> str:
    return f"there is no key {key!r}: {did_you_mean([key], KEYS)}keys: {', '.join(KEYS)}"


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name.isidentifier() for name in value)
