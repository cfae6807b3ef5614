"""The options of this backend of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import _inductor as inductor

from graphwright import _native
from graphwright.config import Options
from graphwright.errors import Diagnostic, OptionError
from graphwright.records import dataclass, fields, replace

MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"specialize": "hot"},
    "max-autotune-no-cudagraphs": {"specialize": "hot"},
}
"""The options that each ``mode`` of ``torch.compile`` sets."""
_EAGER: Final = "eager"
_OWN: Final[Mapping[str, Any]] = {
    "mode": "default",
    "strict": False,
    "release_weights": False,
    "hook": None,
    "check_nan": False,
}
"""Options that only the backend has, with their defaults."""


@dataclass(frozen=True)
class Settings:
    """The settings of a backend. ``options`` are those of the compiler. ``strict``: unsupported operators are
    an error. ``release_weights``: the memory of packed parameters is released. ``eager``: operators run one
    by one; ``hook`` is called after each, and ``check_nan`` stops a run at the first NaN.
    """

    options: Options
    strict: bool = False
    release_weights: bool = False
    eager: bool = False
    hook: Callable[[Any], object] | None = None
    check_nan: bool = False

    @classmethod
    def of(cls, mode: str | None, options: Mapping[str, Any] | None) -> Settings:
        """The settings for these arguments of ``torch.compile``, which does not allow ``mode`` together with
        options. Raises OptionError.
        """
        given = dict(options or {})
        own = {name: given.pop(name, default) for name, default in _OWN.items()}
        mode = mode or own.pop("mode")
        own.pop("mode", None)
        if mode not in (*MODES, _EAGER):
            message = f"mode={mode!r} is not a mode"
            raise OptionError(
                Diagnostic("option", message, hint=f"the modes are {', '.join((*MODES, _EAGER))}")
            )
        eager = mode == _EAGER
        _check(own, eager)
        _refuse_inductor(given)
        compiler_options = Options.of({**MODES.get(mode, {}), **given})
        return cls(_with_threads_of_pytorch(compiler_options), eager=eager, **own)


def _with_threads_of_pytorch(options: Options) -> Options:
    """``options`` with PyTorch's number of threads, if it is smaller than the default. Dynamo captures a
    graph again after ``torch.set_num_threads``.
    """
    count = torch.get_num_threads()
    if options.threads or count >= _native.threads():
        return options
    return replace(options, threads=count)


def _refuse_inductor(given: Mapping[str, Any]) -> None:
    """Raises OptionError with all options in ``given`` that belong to PyTorch's Inductor."""
    unknown = given.keys() - {option.name for option in fields(Options)}
    theirs = [name for name in given if name in unknown and name in inductor.list_options()]
    if theirs:
        hint = "leave it out: this backend takes the options of graphwright.compile"
        raise OptionError(
            *(Diagnostic("option", f"{name} is an option of Inductor", hint=hint) for name in theirs)
        )


def _check(own: Mapping[str, Any], eager: bool) -> None:
    """Raises OptionError for invalid values of the backend's options."""
    for name, default in _OWN.items():
        if isinstance(default, bool) and not isinstance(own[name], bool):
            raise OptionError(Diagnostic("option", f"{name}={own[name]!r} is neither True nor False"))
    if own["hook"] is not None and not callable(own["hook"]):
        raise OptionError(Diagnostic("option", f"hook={own['hook']!r} is not a function"))
    alone = [name for name in ("hook", "check_nan") if own[name]]
    if alone and not eager:
        needs = "needs" if len(alone) == 1 else "need"
        message = f"{' and '.join(alone)} {needs} eager mode, which runs operators one by one"
        raise OptionError(Diagnostic("option", message, hint='add "mode": "eager"'))
