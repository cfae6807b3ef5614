"""What a module takes and gives: constants in place of inputs, and any of its values as outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from graphwright.errors import Collector, ModelError
from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Signature, Value
from graphwright.ir.symbols import Dim, Expr
from graphwright.ir.user_inputs import constant_for
from graphwright.passes.base import Record
from graphwright.passes.bind_sizes import bind_sizes
from graphwright.passes.dead_code import DeadCode
from graphwright.support.spelling import did_you_mean, listed


def bind_constants(module: Module, constants: Mapping[str, Any]) -> None:
    """Replace inputs of the entry by ``constants``; a size that they decide holds wherever its symbol occurs.

    A ModelError lists every name that is no input and every constant that does not fit its input.
    """
    graph, faults = module.main, Collector(ModelError)
    inputs = {value.name: value for value in graph.inputs}
    unknown = [name for name in constants if name not in inputs]
    if unknown:
        names = ", ".join(map(repr, unknown))
        hint = f"{did_you_mean(unknown, inputs)}the inputs are {listed(inputs)}"
        faults.add("constants", f"not an input: {names}", hint=hint)
    builder = Builder(module, graph, next(iter(graph), None))
    sizes: dict[str, Dim] = {}
    made: dict[Value, Value] = {}
    for name, given in constants.items():
        value = inputs.get(name)
        if value is None:
            continue
        try:
            array = constant_for(given, value.type)
            _note_sizes(value, array.shape, sizes)
        except ValueError as error:
            faults.add("constants", str(error), f"input {name}")
            continue
        made[value] = builder.const(array)
    faults.raise_if_any()
    for value, constant in made.items():
        graph.replace_all_uses(value, constant)
    _remove_inputs(module, list(made))
    bind_sizes(module, sizes)


def _note_sizes(value: Value, shape: Sequence[int], sizes: dict[str, Dim]) -> None:
    """Note what numbers a constant's shape gives to symbols. A ValueError where another one differs."""
    for dim, size in zip(value.type.shape or shape, shape, strict=True):
        if not isinstance(dim, Expr) or not str(dim).isidentifier():
            continue
        if sizes.setdefault(str(dim), size) != size:
            raise ValueError(f"size {dim} is {sizes[str(dim)]} in one constant and {size} in another")


def keep_outputs(module: Module, names: Sequence[str]) -> None:
    """Make the values called ``names``, inner ones too, the entry's outputs; inputs that only others needed
    go as well.

    A ModelError lists the names that nothing has, and those given twice.
    """
    graph, faults = module.main, Collector(ModelError)
    given = dict(zip(graph.output_names, graph.outputs, strict=True))
    outputs = {name: value for k, (name, value) in enumerate(given.items()) if k not in module.updates()}
    inner = {value.name: value for node in graph for value in node.outputs if value.name}
    named = {value.name: value for value in graph.inputs} | inner | outputs
    for name, count in Counter(names).items():
        if name not in named:
            meant = did_you_mean([name], named)
            hint = f"{meant}the outputs are {listed(outputs)}; values inside can be named as well"
            faults.add("output-name", f"there is no value {name!r}", hint=hint)
        elif count > 1:
            faults.add("output-name", f"output {name!r} is given {count} times")
    faults.raise_if_any()
    needed = [value for value in graph.inputs if _is_read(graph, value)]
    kept = {name: named[name] for name in names}
    if updates := module.updates():
        starts = {graph.inputs[source]: ref for source, ref in module.starts().items()}
        nexts = {graph.inputs[source]: graph.outputs[k] for k, source in updates.items()}
        module.set_results(kept, nexts, starts)
    else:
        graph.set_outputs(list(kept.values()), list(kept))
    DeadCode().run(module, Record("dead_code"))
    _remove_inputs(module, [value for value in needed if not _is_read(graph, value)])


def keep_states(module: Module, states: Mapping[str, str]) -> None:
    """Make each input that ``states`` names a state, which is the output of the other name after a run: that
    is no output any more.

    A ModelError lists names that nothing has, outputs that two inputs are to become, and types that differ.
    """
    graph, faults = module.main, Collector(ModelError)
    inputs = {value.name: value for value in graph.inputs}
    outputs = dict(zip(graph.output_names, graph.outputs, strict=True))
    if module.updates():
        faults.add("states", "the module has states of its own", hint="declare all of them where it is built")
    for known, names, what in ((inputs, [*states], "input"), (outputs, [*states.values()], "output")):
        for name, count in Counter(names).items():
            if name not in known:
                hint = f"{did_you_mean([name], known)}the {what}s are {listed(known)}"
                faults.add("states", f"there is no {what} {name!r}", hint=hint)
            elif count > 1:
                faults.add("states", f"{what} {name!r} is the next value of {count} states")
    faults.raise_if_any()
    for name, following in states.items():
        kept, made = inputs[name].type, outputs[following].type
        if kept != made:
            message = f"state {name!r} is {kept}, and {following!r}, its next value, {made}"
            faults.add(
                "states", message, hint="give all sizes of both with shapes, if they are equal in truth"
            )
    faults.raise_if_any()
    data = {name: value for name, value in outputs.items() if name not in states.values()}
    module.set_results(data, {inputs[name]: outputs[following] for name, following in states.items()})


def _is_read(graph: Graph, value: Value) -> bool:
    return bool(value.uses) or value in graph.outputs


def _remove_inputs(module: Module, values: Sequence[Value]) -> None:
    """Remove inputs of the entry that nothing reads, from its signature as well."""
    graph, signature = module.main, module.signatures.get("main")
    gone = {value.index for value in values}
    if signature is not None and gone:
        kept = [index for index in range(len(graph.inputs)) if index not in gone]
        aliases = tuple((o, kept.index(i)) for o, i in signature.aliases if i not in gone)
        starts = tuple((kept.index(i), ref) for i, ref in signature.starts if i not in gone)
        module.signatures["main"] = Signature(tuple(signature.roles[k] for k in kept), aliases, starts)
    for index in sorted(gone, reverse=True):
        graph.remove_input(index)
