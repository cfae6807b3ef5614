"""Reads the PyTorch models that users pass: modules, exported programs, TorchScript and files."""

from __future__ import annotations

import gc
import logging
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch._export.converter import TS2EPConverter
from torch._export.utils import _get_shape_env_from_gm
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map_only, tree_unflatten

from graphwright.errors import Diagnostic, ModelError
from graphwright.frontends.torch.aliases import without_aliases
from graphwright.frontends.torch.decompositions import export_decompositions
from graphwright.frontends.torch.dim_names import name_dims
from graphwright.frontends.torch.exported import parameter_names, read_program
from graphwright.frontends.torch.source_lines import user_line_of
from graphwright.frontends.torch.types import array_from, tensor_from
from graphwright.ir.graph import Module
from graphwright.ir.op import Array
from graphwright.ir.pytree import Constant, Number, Tensor, forward_from, leaves
from graphwright.log import warn
from graphwright.support.escaping import terminal
from graphwright.support.file_kinds import TORCHSCRIPT, kind_of_file

TorchSource: TypeAlias = torch.nn.Module | ExportedProgram
MOST_LINES = 3
"""The most lines of a PyTorch error that are shown."""
_HINTS = (
    (
        "not a known type",
        "let forward return tensors, lists, tuples and dicts; or register the class: "
        "torch.export.register_dataclass; models of transformers leave their cache out with use_cache=False",
    ),
    (
        "data-dependent",
        "write it with torch.cond or torch.where, or pass the value as an argument of the module that is "
        "the same in each call",
    ),
    (
        "Constraints violated",
        "the module fixes a size that dynamic_shapes declares as dynamic: leave it out of dynamic_shapes; "
        "sizes of 0 and 1 in the examples are fixed as well",
    ),
    (
        "dynamic_shapes",
        "dynamic_shapes is a dict from names of parameters of forward to dicts from axes to sizes: "
        "{'x': {0: torch.export.Dim('batch', max=64)}}",
    ),
)
"""Hints for errors of ``torch.export``, by a phrase of their message."""


def read_source(
    source: TorchSource | Path,
    inputs: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> Module:
    """The module of ``source``. A torch.nn.Module is first exported with ``torch.export`` for these
    arguments. Raises ModelError.
    """
    named, is_own, where = dynamic_shapes, isinstance(source, Path), ""
    if isinstance(source, Path):
        where = terminal(str(source))
        source = load(source)
    if isinstance(source, torch.jit.ScriptModule):
        source = converted(source, inputs, kwargs, dynamic_shapes, where)
        inputs = kwargs = dynamic_shapes = None
    if isinstance(source, torch.nn.Module):
        if inputs is None and kwargs is None:
            raise _no_examples("a module")
        source = export(source, inputs or (), kwargs, dynamic_shapes)
    elif (inputs, kwargs, dynamic_shapes) != (None, None, None):
        message = "an exported program has its examples and dynamic shapes already"
        raise ModelError(Diagnostic("examples", message, hint="leave them out, or give the module"))
    else:
        _warn_of_shared_examples(source)
    with _quiet():
        program = decomposed_program(source)
        module = read_program(program, parameter_names(source))
    if is_own:
        _let_go(source, program)
    forward = forward_from(module.metadata)
    if named is not None and forward is not None:
        name_dims(module, forward, named)
    return module


def _let_go(*programs: ExportedProgram) -> None:
    """Drops the references to weights, so that their memory is freed when the module has packed them."""
    for each in programs:
        each.state_dict.clear()
        each.constants.clear()
    gc.collect()  # programs are in reference cycles


def decomposed_program(program: ExportedProgram) -> ExportedProgram:
    """``program`` with operators decomposed for which graphwright has no op. Raises ModelError with all
    tensors that are not strided, such as sparse ones.
    """
    _refuse_sparse(program)
    _drop_ranges_of_expressions(program)
    with _quiet(), _refusals("the exported program"), torch.no_grad():
        decomposed: ExportedProgram = without_aliases(program).run_decompositions(export_decompositions())
        return decomposed


def _refuse_sparse(program: ExportedProgram) -> None:
    """Raises ModelError with the parameters, buffers and constants that are not strided: PyTorch cannot
    decompose programs that have them.
    """
    hint = "store it as a dense tensor (to_dense), or its indices and values as two buffers"
    faults = [
        Diagnostic("export", f"{name} has the layout {tensor.layout}, not torch.strided", hint=hint)
        for name, tensor in (program.state_dict | program.constants).items()
        if isinstance(tensor, torch.Tensor) and tensor.layout != torch.strided
    ]
    if faults:
        raise ModelError(*faults)


def _drop_ranges_of_expressions(program: ExportedProgram) -> None:
    """Removes the ranges of expressions (``2*rows``) that ``torch.export.load`` stores with those of symbols,
    where PyTorch's decompositions reject them.
    """
    shape_env = _get_shape_env_from_gm(program.graph_module)
    ranges = {} if shape_env is None else shape_env.var_to_range
    for each in [each for each in ranges if not each.is_Symbol]:
        del ranges[each]


def load(path: Path) -> TorchSource:
    """The program or TorchScript module in a file. PyTorch trusts the contents of the file. Raises
    ModelError.
    """
    kind = kind_of_file(path)
    try:
        with _quiet(), _without_log("torch.export"):
            source: TorchSource = (
                torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
                if kind is TORCHSCRIPT
                else torch.export.load(path)
            )
            return source
    except Exception as error:  # PyTorch raises many types
        first = str(error).strip().partition("\n")[0]
        what = "a PyTorch file" if kind is None else kind.what
        message = f"is {what}, and PyTorch cannot read it: {type(error).__name__}: {first:.300}"
        hint = f"it was written by another version of PyTorch (here {torch.__version__}), or is damaged"
        raise ModelError(Diagnostic("file", message, terminal(str(path)), hint)) from error


def converted(
    module: torch.jit.ScriptModule,
    inputs: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    where: str,
) -> ExportedProgram:
    """A TorchScript module, from the file ``where``, converted by PyTorch to a program for these sizes only.
    Raises ModelError.
    """
    if inputs is None and kwargs is None:
        raise _no_examples("TorchScript, which has no types of its inputs,", where)
    if dynamic_shapes is not None:
        message = "PyTorch converts TorchScript only for the sizes of the examples"
        raise ModelError(Diagnostic("examples", message, hint="export the module that it was made from"))
    with _quiet(), _refusals("the TorchScript module"):
        named = None if kwargs is None else dict(kwargs)
        exported: ExportedProgram = TS2EPConverter(module, tuple(inputs or ()), named).convert()
        return exported


def _no_examples(what: str, where: str = "") -> ModelError:
    hint = "as in gw.compile(module, (x,)), or (x,), {'mask': mask}"
    message = f"compiling {what} needs example arguments of its forward"
    return ModelError(Diagnostic("examples", message, where, hint))


def eager_outputs(path: Path, feeds_for: Callable[[Module], Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of the program in a file, computed by PyTorch, by name. ``feeds_for`` returns the arrays
    for the inputs of its module. Raises ModelError.
    """
    program = load(path)
    assert isinstance(program, ExportedProgram)
    module = read_source(program, None, None, None)
    feeds, forward = feeds_for(module), forward_from(module.metadata)
    assert forward is not None
    given = [_argument(leaf, feeds) for _, tree in forward.parameters for leaf in leaves(tree)]
    arguments, named = tree_unflatten(given, program.call_spec.in_spec)
    with torch.no_grad():
        results = tree_leaves(program.module()(*arguments, **named))
    pairs = zip(leaves(forward.result), results, strict=True)
    return {
        leaf.name: array_from(result) if isinstance(leaf, Tensor) else np.asarray(result)
        for leaf, result in pairs
        if not isinstance(leaf, Constant)
    }


def _argument(leaf: Tensor | Number | Constant, feeds: Mapping[str, Array]) -> Any:
    match leaf:
        case Tensor(name):
            return tensor_from(feeds[name])
        case Number(name):
            return feeds[name].shape[0]
        case Constant(value):
            return value


def export(
    module: torch.nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """The program of ``module``. Raises a ModelError with the error of ``torch.export`` and its source
    line.
    """
    arguments = tuple(inputs), None if kwargs is None else dict(kwargs)
    own = _distinct(arguments, {*map(id, module.parameters()), *map(id, module.buffers())})
    with _quiet(), _refusals(type(module).__name__):
        return torch.export.export(module, *own, dynamic_shapes=dynamic_shapes)


def _distinct(arguments: Any, seen: set[int]) -> Any:
    """``arguments`` with a tensor object for each place, none of which has an id in ``seen``:
    ``torch.export`` uses the value of one place for all that have the same tensor.
    """

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.detach().requires_grad_(tensor.requires_grad)
        seen.add(id(tensor))
        return tensor

    return tree_map_only(torch.Tensor, own, arguments)


def _warn_of_shared_examples(program: ExportedProgram) -> None:
    """Warns if the user exported ``program`` with one tensor for several arguments."""
    if program.example_inputs is None:
        return
    names = defaultdict(list)
    examples = tree_leaves(program.example_inputs)
    for name, example in zip(program.graph_signature.user_inputs, examples, strict=True):
        if isinstance(example, torch.Tensor):
            names[id(example)].append(str(name))
    for shared in names.values():
        if len(shared) > 1:
            warn(
                "the program was exported with one tensor for the arguments %s: torch.export reads only one "
                "of them; export it again with different tensors",
                ", ".join(shared),
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignores warnings about calls that PyTorch makes itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Converts exceptions of ``torch.export`` for ``name`` to ModelError, and disables the log of PyTorch
    about them.
    """
    try:
        with _without_log("torch._subclasses.fake_tensor"):
            yield
    except MemoryError:
        raise
    except Exception as error:  # code of the module runs, and can raise anything
        raise ModelError(_refusal(error, name)) from error


@contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Disables a logger of PyTorch, which logs errors that it also raises."""
    logger = logging.getLogger(name)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _refusal(error: Exception, name: str) -> Diagnostic:
    text, _, fixes = str(error).partition("The error above")[0].partition("Suggested fixes:")
    said = " ".join(_lines(text)[:MOST_LINES])
    hint = next((hint for word, hint in _HINTS if word in text), "the error above says more")
    hint += f"; PyTorch suggests {', '.join(_lines(fixes))}" if fixes else ""
    message = f"torch.export rejects {name}: {type(error).__name__}: {said}"
    return Diagnostic("export", message, user_line_of(error), hint)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
