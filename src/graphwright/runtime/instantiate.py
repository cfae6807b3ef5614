"""Makes the executor of an executable. This is the only place where executors are assembled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from graphwright.config import Options
from graphwright.errors import Diagnostic, PackageError
from graphwright.executable.nodes import (
    COMPILE,
    Dispatch,
    Executable,
    HostProgram,
    Program,
    between_buckets,
    is_static,
)
from graphwright.option_values import add_device
from graphwright.package.package import Package
from graphwright.records import replace
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.load_program import Shared, best_target
from graphwright.runtime.devices.null import Null
from graphwright.runtime.dispatch.case_table import Case
from graphwright.runtime.dispatch.executor import DispatchExecutor
from graphwright.runtime.executor import Executor, Shapes

NATIVE: Final[Mapping[str, type[Cpu] | type[Null]]] = {"cpu": Cpu, "null": Null}
"""Devices that run programs compiled for the CPU: natively, or planned without being launched."""
MakeExecutor = Callable[[Program, Package, Options], Executor | None]
"""Makes the executor of a program of a package on a device; None if the package has no code for the device.
"""
_REGISTERED: Final[dict[str, MakeExecutor]] = {}


def register_device(name: str, make: MakeExecutor) -> None:
    """Registers the device ``name`` for the option ``device``; ``make`` makes the executors of its
    programs.
    """
    add_device(name)
    _REGISTERED[name] = make


Recompile = Callable[[Dispatch, Shapes], Package]
"""Compiles a package for input shapes that no case of a dispatch accepts."""
RecompilerOf = Callable[[Package, Options], Recompile]


def instantiate(
    package: Package, options: Options, recompiler: RecompilerOf, shared: Shared | None
) -> Executor | None:
    """The executor of the main entry of ``package``; None if the package has no code for this CPU and device.

    ``recompiler`` makes the function that compiles the package for shapes that it has no program for. Raises
    PackageError.
    """
    executable = package.main.executable
    if executable is None:
        return None
    return _Assembler(package, options, recompiler, shared or Shared(options.plan_cache)).model(executable)


class _Assembler:
    """Assembles the executors of one package. They share arenas and libraries, as usually one runs at
    a time.
    """

    def __init__(self, package: Package, options: Options, recompiler: RecompilerOf, shared: Shared) -> None:
        self._package, self._options, self._shared = package, options, shared
        self._recompiler = recompiler

    def model(self, executable: Executable) -> Executor | None:
        """The executor of ``executable``, which computes the whole model."""
        if isinstance(executable, Dispatch):
            return self._dispatch(executable, self.model)
        executor = self._callee(executable)
        return None if executor is None else self._with_tier_up(executable, executor)

    def _callee(self, executable: Executable) -> Executor | None:
        """The executor of ``executable`` without tier-up: of a callee of a host program, or of a
        whole model.
        """
        if isinstance(executable, Dispatch):
            return self._dispatch(executable, self._callee)
        return (
            self._program(executable) if isinstance(executable, Program) else self._host_program(executable)
        )

    def _dispatch(self, dispatch: Dispatch, make: Callable[[Executable], Executor | None]) -> Executor | None:
        if between_buckets(dispatch) == "pad":
            make = self._callee  # a padded case runs a static program, which has no higher tier
        cases = []
        for case in dispatch.cases:
            executor = make(case)
            if executor is None:
                return None
            cases.append(Case(case, executor))
        compiles = dispatch.otherwise == COMPILE
        return DispatchExecutor(
            dispatch, cases, (lambda shapes: self._compiled(dispatch, shapes)) if compiles else None
        )

    def _compiled(self, dispatch: Dispatch, shapes: Shapes) -> Case:
        package = self._recompile(dispatch, shapes)
        executor = instantiate(package, self._options, self._recompiler, self._shared)
        executable = package.main.executable
        assert executable is not None and executor is not None  # it was compiled for these options
        return Case(executable, executor)

    @cached_property
    def _recompile(self) -> Recompile:
        return self._recompiler(self._package, self._options)

    def _program(self, program: Program) -> Executor | None:
        options, device = self._options, program.device or self._options.device
        if device == "reference":
            return self._reference(program)
        if device in _REGISTERED:
            return _REGISTERED[device](program, self._package, options)
        if device not in NATIVE:
            message = f"a program is for the device {device[:40]!r}, which is not registered"
            hint = "load the plugin that registers the device, or compile the model again"
            raise PackageError(Diagnostic("device", message, hint=hint))
        target = best_target(program.targets, options)
        if target is None:
            return None
        executor = NATIVE[device](program, target, self._package.weights_of(target.name), self._shared)
        if options.verify and isinstance(executor, Cpu):
            # imported only if the option asks for it
            from graphwright.runtime.devices.plan_check import verify_plan

            verify_plan(program, target, executor, options.threads)
        return executor

    def _reference(self, program: Program) -> Executor | None:
        if program.module is None:
            return None
        from graphwright.runtime.devices.reference import Reference  # imports NumPy and all ops

        return Reference(program.module)

    def _host_program(self, program: HostProgram) -> Executor | None:
        executors: dict[int, Executor] = {}
        for call in program.calls():
            executor = self._callee(call.callee)
            if executor is None:
                return None
            executors[call.number] = executor
        # imports the IR and all ops
        from graphwright.runtime.host_program.executor import HostProgramExecutor

        arrays = self._package.weights.arrays if program.constants or program.hosts() else {}
        return HostProgramExecutor(program, executors, arrays)

    def _with_tier_up(self, executable: Executable, executor: Executor) -> Executor:
        """``executor``; with the option ``specialize=hot``, also static programs for shapes that recur."""
        options = self._options
        if options.specialize != "hot" or options.device != "cpu" or is_static(executable):
            return executor
        from graphwright.runtime.dispatch.tier_up import TierUp  # imported only if the option asks for it

        return TierUp(executor, executable.inputs, self._package, options, self._loaded)

    def _loaded(self, package: Package) -> Executor | None:
        """The executor of a specialized package, which has no higher tier."""
        options = replace(self._options, specialize="none")
        return instantiate(package, options, self._recompiler, self._shared)
