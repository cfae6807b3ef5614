"""Options of compilation and runs. Each option has a name, a type, a default, a description, and a flag that
says whether it is part of cache keys. Its environment variable follows from its name.

No other module of graphwright reads options from the environment.
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from graphwright.errors import Collector, Diagnostic, OptionError
from graphwright.log import warn
from graphwright.option_files.rate_files import USERS_RATES, read_calibration
from graphwright.option_files.rule_lists import read_rules
from graphwright.option_files.tuning_records import USERS_RECORD, read_tuning
from graphwright.option_values import (
    ISA_NAMES,
    NUMERICS,
    PRECISIONS,
    SPECIALIZE,
    WEIGHTS,
    known_device,
    one_of,
    read_bytes,
    read_count,
    read_folder,
    read_isas,
    read_level,
    read_names,
    read_positive,
    read_sizes,
    read_switch,
)
from graphwright.records import dataclass, field, fields, replace
from graphwright.support.message_text import close_names, did_you_mean

_PREFIX: Final = "GRAPHWRIGHT_"
_OTHER_VARIABLES: Final = ("GRAPHWRIGHT_MODELS",)
"""Variables of the benchmarks, which have the same prefix but are not options."""


def _option(
    default: Any, help_text: str, read: Callable[[str], Any], in_key: bool = False, one_text: bool = False
) -> Any:
    """A field of :class:`Options`. ``read`` parses the value from text, or raises a ValueError that lists the
    valid values. ``in_key``: the option is part of cache keys. ``one_text``: on the command line, several
    values are one argument.
    """
    metadata = {"help": help_text, "read": read, "in_key": in_key, "one_text": one_text}
    return field(default=default, metadata=metadata)


def _switch(help_text: str, in_key: bool = False) -> Any:
    """An option that is off by default."""
    return _option(default=False, help_text=help_text, read=read_switch, in_key=in_key)


def _base(variable: str, otherwise: str) -> Path:
    """Graphwright's folder in the base directory ``variable`` of the XDG Base Directory Specification (0.8),
    or in ``otherwise`` in the home folder. Relative values of ``variable`` are ignored, as the specification
    demands.
    """
    given = os.environ.get(variable, "")
    return (Path(given) if os.path.isabs(given) else _home() / otherwise) / "graphwright"


def _home() -> Path:
    """The user's home folder. If the user has none, a path in which no folder can be created."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


@dataclass(frozen=True)
class Options:
    """How to compile and run. Each option is also an environment variable: ``cache_dir`` is
    ``GRAPHWRIGHT_CACHE_DIR``.
    """

    cc: str = _option(
        "",
        "C compiler: a path, or a command with arguments; empty searches for $CC, cc, gcc, clang, ziglang",
        str,
    )
    cache_dir: Path | None = _option(
        None,
        "folder for the cache of compiled kernels and programs; default: the user's cache folder",
        read_folder,
    )
    cache_limit: int = _option(
        1024,
        "maximum size of the kernel cache, and of the program cache, in MiB; 0 caches no programs",
        read_count,
    )
    threads: int = _option(0, "threads of a run; 0 is one per usable core", read_count)
    isa: str = _option(
        "auto",
        "instruction set of kernels: v3 is AVX2, v4 is AVX-512, auto is the best that this CPU supports",
        one_of(*ISA_NAMES),
        in_key=True,
    )
    targets: tuple[str, ...] = _option(
        (),
        "ISAs for which a package contains kernels, as in v4,v3; loading selects the best one for the CPU",
        read_isas,
        one_text=True,
    )
    specialize: str = _option(
        "none",
        "static programs for input shapes that recur: none, or hot (compiled in the background)",
        one_of(*SPECIALIZE),
    )
    hot_after: int = _option(
        16, "number of runs of a shape after which specialize=hot compiles a program for it", read_positive
    )
    hot_variants: int = _option(4, "maximum number of programs that specialize=hot keeps", read_positive)
    plan_cache: int = _option(
        16, "maximum number of cached plans of a model, one for each set of input shapes", read_positive
    )
    device: str = _option(
        "cpu",
        "device: cpu; null, which plans a run but launches no kernel; reference, which is NumPy",
        known_device,
    )
    streams: int = _option(1, "number of task streams that may run concurrently", read_count, in_key=True)
    numerics: str = _option(
        "default",
        "rounding: default, or strict (no Winograd, no f32 as a pair of bf16)",
        one_of(*NUMERICS),
        in_key=True,
    )
    precision: str = _option(
        "default",
        "precision: default (the model's types), or bf16 (contractions in bf16 with f32 accumulation)",
        one_of(*PRECISIONS),
        in_key=True,
    )
    weights: str = _option(
        "default",
        "weights of matrix multiplications: default (as in the model), int8 or int4 (quantized)",
        one_of(*WEIGHTS),
        in_key=True,
    )
    opt_level: int = _option(
        3,
        "optimization level: 0 (only what is needed to run), 1 (simplification, layouts), 2 (fusion of "
        "loops), 3 (all)",
        read_level,
        in_key=True,
    )
    fusion_rules: str = _option(
        "all",
        "fusion rules: all, none, a comma-separated list, -NAME to switch one off, or a .toml file",
        read_rules,
        in_key=True,
    )
    calibration: str = _option(
        USERS_RATES,
        "rates of the cost model: auto (those of graphwright calibrate, if measured), none, or a file",
        read_calibration,
        in_key=True,
    )
    tune: int = _option(
        0,
        "time limit in seconds for measuring alternative kernels and fusions; the faster ones are stored in "
        "the user's tuning record; 0 measures nothing",
        read_count,
    )
    tune_sizes: str = _option(
        "",
        "sizes of dynamic dimensions while --tune measures, as in N=1,H=640",
        read_sizes,
    )
    tuning: str = _option(
        USERS_RECORD,
        "tuning record: auto (results of earlier --tune runs of this user), none, or a file",
        read_tuning,
    )
    memory_budget: int = _option(
        0,
        "maximum bytes of weights and the arena of a run together, as in 64MiB: tasks are reordered, values "
        "are recomputed, or the model is rejected; 0 is no limit",
        read_bytes,
        in_key=True,
    )
    debug: bool = _switch(
        "keep symbols, line numbers and frame pointers in kernels; a crash also reports loops and operands",
        in_key=True,
    )
    crash_dir: Path | None = _option(
        None,
        "folder to which a crash in a kernel writes the model, its inputs and a script that reproduces it",
        read_folder,
    )
    no_crash_report: bool = _switch(
        "install no signal handlers: a crash in a kernel does not report which kernel it was"
    )
    verify: bool = _switch("verify the graph after every pass")
    plugins: tuple[str, ...] = _option(
        (), "a plugin to load: a .py file, a module, or the name of an installed one", read_names
    )
    no_autoload: bool = _switch("load only the installed plugins that are named")
    external_data: Path | None = _option(
        None, "additional folder in which a model's external data may be", read_folder
    )
    trust: bool = _switch("run the kernels of packages that others built")
    keys: tuple[str, ...] = _option(
        (), "a key file: packages signed with it are trusted, like this user's own", read_names
    )
    key_dir: Path | None = _option(None, "folder of the signing key; default: the user's", read_folder)

    def __post_init__(self) -> None:
        faults = Collector(OptionError)
        for option in fields(self):
            value = getattr(self, option.name)
            if type(value) is type(option.default) and value == option.default:
                continue
            try:
                object.__setattr__(self, option.name, _checked(value, option.metadata["read"]))
            except ValueError as error:
                faults.add("option", f"{option.name}={value!r}: {error}", hint=option.metadata["help"])
        faults.raise_if_any()

    @classmethod
    def of(cls, given: Options | Mapping[str, Any] | None, **overrides: Any) -> Options:
        """The options that a user passes. An Options object is used as it is. A mapping overrides the options
        from the environment; None is an empty mapping. Those ``overrides`` that are not None take precedence
        over both. Raises OptionError.
        """
        set_overrides = {name: value for name, value in overrides.items() if value is not None}
        if isinstance(given, Options):
            return replace(given, **set_overrides) if set_overrides else given
        if given is not None and not isinstance(given, Mapping):
            message = f"options must be a CompileOptions or a dict, not {type(given).__name__}"
            raise OptionError(Diagnostic("option", message, hint="as in options={'threads': 2}"))
        for name in given or ():
            if not isinstance(name, str):
                raise OptionError(Diagnostic("option", f"there is no option {name!r:.100}: names are text"))
        return cls.from_environment(**{**(given or {}), **set_overrides})

    @classmethod
    def from_environment(cls, **overrides: Any) -> Options:
        """Options from the ``GRAPHWRIGHT_*`` variables that are not empty; ``overrides`` take precedence.

        Raises an OptionError that lists all invalid options.
        """
        faults = Collector(OptionError)
        known = {option.name: option for option in fields(cls)}
        for name in sorted(overrides.keys() - known.keys()):
            hint = f"{did_you_mean([name], known)}options: {', '.join(known)}"
            faults.add("option", f"there is no option {name}", hint=hint)
        _warn_of_unknown_variables(frozenset(name for name in os.environ if name.startswith(_PREFIX)))
        values = {name: value for name, value in overrides.items() if name in known}
        for name, option in known.items():
            text = os.environ.get(variable(name))
            if name in values or not text:
                continue
            try:
                values[name] = option.metadata["read"](text)
            except ValueError as error:
                faults.add("option", f"{variable(name)}={text!r}: {error}", hint=option.metadata["help"])
        try:
            options = cls(**values)
        except OptionError as error:
            faults.extend(error.diagnostics)
        faults.raise_if_any()
        return options

    def key(self) -> dict[str, str]:
        """The options that change generated code, as text for cache keys. A JSON value is replaced by its
        digest.
        """
        return {
            option.name: _key_text(_text(getattr(self, option.name)))
            for option in fields(self)
            if option.metadata["in_key"]
        }

    @property
    def keeps_types(self) -> bool:
        """Whether all values have the dtypes of the model: no option requests fewer bits."""
        return self.weights == self.precision == "default"

    @property
    def cache_folder(self) -> Path:
        """``cache_dir``, or graphwright's folder in the user's cache folder."""
        return self.cache_dir or _base("XDG_CACHE_HOME", ".cache")

    @property
    def calibration_file(self) -> Path:
        """The file in which ``graphwright calibrate`` stores the rates of this user."""
        return _base("XDG_CONFIG_HOME", ".config") / "machine.json"

    @property
    def tuning_folder(self) -> Path:
        """The folder of the user's tuning record."""
        return self.cache_folder / "tuning"

    @property
    def sizes_to_tune(self) -> dict[str, int]:
        """``tune_sizes`` as a mapping from the names of dynamic dimensions to sizes."""
        pairs = (each.partition("=") for each in self.tune_sizes.split(",") if each)
        return {name.strip(): int(size) for name, _, size in pairs}

    @property
    def key_folder(self) -> Path:
        """``key_dir``, or graphwright's folder in the user's configuration folder."""
        return self.key_dir or _base("XDG_CONFIG_HOME", ".config")


def _checked(value: Any, read: Callable[[str], Any]) -> Any:
    """``value`` as an option stores it: lists become tuples, NumPy integers become Python integers, and text
    is parsed if the option is a path, a tuple or a number of bytes. Raises a ValueError that lists the valid
    values.
    """
    if isinstance(value, list):
        value = tuple(value)
    elif not isinstance(value, bool) and hasattr(value, "__index__"):
        with suppress(TypeError):  # an array of several elements
            value = operator.index(value)
    parsed = read(_text(value))
    if isinstance(parsed, Path) and isinstance(value, str | os.PathLike):
        return parsed
    if isinstance(value, str) and (isinstance(parsed, tuple | str) or read is read_bytes):
        return parsed
    if type(parsed) is not type(value):
        raise ValueError(f"is {value!r}, which has the wrong type")
    return value


@cache
def _warn_of_unknown_variables(names: frozenset[str]) -> None:
    """Warns once about variables with the prefix of options that are not options."""
    known = [variable(option.name) for option in fields(Options)]
    for name in sorted(names - {*known, *_OTHER_VARIABLES}):
        options = {each.removeprefix(_PREFIX): each for each in known}
        near = [options[each] for each in close_names(name.removeprefix(_PREFIX), options)]
        meant = f"did you mean {' or '.join(near)}?" if near else f"the options are {', '.join(known)}"
        warn("the environment variable %s is not an option and is ignored: %s", name, meant)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return os.pathsep.join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32] if text.startswith("{") else text


def variable(option: str) -> str:
    """The environment variable of an option."""
    return f"{_PREFIX}{option.upper()}"


def table() -> Mapping[str, tuple[str, str, str]]:
    """A mapping from each option to its default, environment variable and description, for help pages."""
    return {o.name: (_text(o.default), variable(o.name), o.metadata["help"]) for o in fields(Options)}


def to_environment(options: Options) -> dict[str, str]:
    """The environment variables from which another process reads ``options``: one for each option that
    differs from its default.
    """
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    return {variable(n): _text(v) for n, v in values.items() if v != getattr(Options, n)}
