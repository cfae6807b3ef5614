"""The text format of the loop IR: :func:`print_kernel`, and its exact inverse :func:`parse_kernel`.

A kernel looks like this::

    kernel scale(x: f32[N], y: f32[N]) sizes(N) {
      vector i < N { y[i] = x[i] * 2.0 }
    }

``scalars(a, b)`` after the sizes declares scalar arguments. Line breaks have no meaning. ``@i`` is an index
expression as a value, ``1.0:f32`` a literal with a dtype, ``x[i where @i < @N else 1.0]`` a masked load, and
``a[r:12, 0:K]`` a tile of 12 rows from row ``r``.
"""

from graphwright.ir.loops.parse import parse_kernel, parse_kernels
from graphwright.ir.loops.printer import RESERVED, print_kernel, print_statement

__all__ = ["RESERVED", "parse_kernel", "parse_kernels", "print_kernel", "print_statement"]
