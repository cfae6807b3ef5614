"""Helpers of fusion tests: parse a module from the text of its main graph, and return the decisions of the
pass.
"""

from __future__ import annotations

from graphwright import ops
from graphwright.fusion.decisions import Decision, decisions_of
from graphwright.fusion.fuse import Fuse
from graphwright.fusion.rules.switches import RuleSet
from graphwright.ir.graph import Module
from graphwright.ir.text import parse_module
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import run_passes
from graphwright.targets.cpu.target import TARGETS

ops.load()


def module_of(head: str, *lines: str) -> Module:
    """``head``: inputs. The last of ``lines`` begins with return; those of constants begin with constant."""
    constants = "".join(f"  {line}\n" for line in lines if line.startswith("constant "))
    body = "".join(f"    {line}\n" for line in lines if not line.startswith("constant "))
    return parse_module(f"module {{\n{constants}  graph main({head}) {{\n{body}  }}\n}}\n")


def decided(module: Module, rules: RuleSet | None = None) -> dict[tuple[str, ...], Decision]:
    """The decisions by the names of their nodes; ``module`` is fused."""
    records = run_passes(module, InferShapes(), Fuse(TARGETS["v4"], rules or RuleSet()))
    return {each.edit.nodes: each for each in decisions_of(records)}
