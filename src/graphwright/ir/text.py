"""The text of modules: print, parse (the exact inverse) and structural comparison.

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

A value is written ``%name``; ``%0``, ``%1`` have no name; names with other characters are quoted, and the
second value of a name in one graph is ``%name~1``. An absent operand is ``_``. ``//`` starts a comment.
Attributes at their defaults are left out. Text from a model is escaped, so a listing is safe to show.
"""

from graphwright.ir.equal import structurally_equal
from graphwright.ir.parse import parse_module, parse_op
from graphwright.ir.printer import Listing, print_graph, print_module, print_node, print_op

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
