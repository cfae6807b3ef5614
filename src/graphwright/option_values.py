"""The valid values of options, and the functions that read them from text. Each returns the value, or raises
a ValueError that says what the option takes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

NUMERICS: Final = ("default", "strict")
PRECISIONS: Final = ("default", "bf16")
WEIGHTS: Final = ("default", "int8", "int4")
OPT_LEVELS: Final = ("0", "1", "2", "3")
ISA_NAMES: Final = ("auto", "v3", "v4")
DEVICES: Final = ("cpu", "null", "reference")
"""The built-in devices; all of them run on the CPU of this machine."""
WHOLE_MODELS: Final = ("null", "reference")
"""The devices that can only run whole models, not single nodes."""
_OTHER_DEVICES: Final[list[str]] = []
"""Devices of plugins."""
SPECIALIZE: Final = ("none", "hot")
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_MAX_DIGITS: Final = 9
"""Numbers with at most this many digits fit an int of the native code."""


def read_count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("must be a whole number, 0 or more")
    if len(text.lstrip("0")) > _MAX_DIGITS:
        raise ValueError(f"must have at most {_MAX_DIGITS} digits")
    return int(text)


def read_positive(text: str) -> int:
    number = read_count(text) if text.isdecimal() else 0
    if not number:
        raise ValueError("must be a whole number, 1 or more")
    return number


def read_bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,18})(?:[.]([0-9]{1,9}))? ?(B|KiB|MiB|GiB|)", text)
    if found is None:
        raise ValueError("must be a number of bytes, as in 67108864, 64MiB or 1.5GiB")
    whole, part = found[1], found[2] or ""
    scale: int = 10 ** len(part)
    return int(whole + part) * _UNITS[found[3]] // scale


def read_level(text: str) -> int:
    if text not in OPT_LEVELS:
        raise ValueError(f"must be one of {', '.join(OPT_LEVELS)}")
    return int(text)


def one_of(*allowed: str) -> Callable[[str], str]:
    """A function that returns its argument if it is one of ``allowed``."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return read


def read_switch(text: str) -> bool:
    word = text.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("must be true or false")
    return word in _TRUE


def read_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(os.pathsep) if name)


def add_device(name: str) -> None:
    """Makes ``name`` a valid value of the option ``device``."""
    if name not in (*DEVICES, *_OTHER_DEVICES):
        _OTHER_DEVICES.append(name)


def known_device(text: str) -> str:
    """``text``. Raises a ValueError that lists the devices if it is not one of them."""
    return one_of(*DEVICES, *_OTHER_DEVICES)(text)


def read_isas(text: str) -> tuple[str, ...]:
    names = tuple(text.replace(os.pathsep, ",").split(",")) if text else ()
    if not set(names) <= {*ISA_NAMES} - {"auto"} or len(set(names)) < len(names):
        raise ValueError(f"must be a comma-separated list of {', '.join(ISA_NAMES[1:])}, each at most once")
    return names


def read_sizes(text: str) -> str:
    for each in text.split(",") if text else ():
        name, equals, size = each.partition("=")
        if not (name.strip() and equals and size.strip().isdecimal() and len(size.strip()) <= _MAX_DIGITS):
            raise ValueError("must be sizes, as in N=1,H=640")
    return text


def read_folder(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("must be a folder")
    return Path(text).expanduser()
