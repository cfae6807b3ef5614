"""The text format of modules: printing, parsing (the exact inverse), and structural comparison.

::

    module {
      symbol N in [1, 64] multiple of 4
      constant #3fa9c1: i64[2] = [1, -1]
      graph main(%x: f32[N, 3]) {
        %s = Constant[value=#3fa9c1]: i64[2]
        %y = Reshape(%x, %s): f32[3*N, 1] from "Reshape_0"
        return %y
      }
    }

A value is written as ``%name``. Values without names are ``%0``, ``%1``; names with other characters are
quoted, and the second value of the same name in a graph is ``%name~1``. An absent operand is ``_``. ``//``
starts a comment. Attributes with default values are omitted. Text from the source model is escaped, so the
output is safe to show on a terminal.
"""

from graphwright.ir.text.equal import structurally_equal
from graphwright.ir.text.parse import parse_module, parse_op
from graphwright.ir.text.printer import Listing, print_graph, print_module, print_node, print_op

__all__ = [
    "Listing",
    "parse_module",
    "parse_op",
    "print_graph",
    "print_module",
    "print_node",
    "print_op",
    "structurally_equal",
]
