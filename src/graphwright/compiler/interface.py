"""The interface of a compiled module: its inputs, outputs, states, guards and constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphwright.executable.nodes import Program
from graphwright.executable.specs import TensorSpec
from graphwright.executable.target_code import TargetCode
from graphwright.ir.graph import Module, Role, Value
from graphwright.ir.symbols import Constraint


def program_of(
    module: Module, targets: Mapping[str, TargetCode], interpreted: Module | None = None
) -> Program:
    """A program of ``module`` with code for ``targets``. ``interpreted``: the module that the reference
    device interprets.
    """
    specs = input_specs(module), output_specs(module)
    return Program(*specs, guard_texts(module), targets, states(module), interpreted)


def states(module: Module) -> tuple[int, ...]:
    """Indices of the inputs of the entry graph that a run updates in place."""
    return tuple(module.state_updates().values())


def initial_values(module: Module) -> dict[str, str]:
    """For each state with an initial value: its name and the digest of that value. Other states start as
    zeros.
    """
    inputs = module.main.inputs
    return {inputs[number].name: ref.digest for number, ref in module.initial_states().items()}


def input_specs(module: Module) -> tuple[TensorSpec, ...]:
    """The inputs of the entry graph that users feed; bucket sizes, which the runtime feeds, are left out."""
    signature = module.signatures.get("main")
    hidden = () if signature is None else [k for k, role in enumerate(signature.roles) if role is Role.SIZES]
    return tuple(spec_of(value, value.name) for value in module.main.inputs if value.index not in hidden)


def output_specs(module: Module) -> tuple[TensorSpec, ...]:
    """The outputs of the entry graph that users receive; next values of states are left out."""
    specs, updates = map(spec_of, module.main.outputs, module.main.output_names), module.state_updates()
    return tuple(spec for position, spec in enumerate(specs) if position not in updates)


def guard_texts(module: Module) -> tuple[str, ...]:
    """The guards of ``module``, as packages store them."""
    return constraint_texts(module.symbols.guards)


def constraint_texts(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    """Constraints as packages store them, each with the node that requires it."""
    return tuple(f"{each} (node {each.node})" for each in constraints)


def spec_of(value: Value, name: str) -> TensorSpec:
    """The dtype and shape of ``value`` under ``name``; symbolic dims are texts."""
    shape = value.type.shape
    dims = None if shape is None else tuple(d if isinstance(d, int) else str(d) for d in shape)
    return TensorSpec(name, value.type.dtype, dims)
