"""The algebra of sizes, and reasoning with constraints on them; :mod:`..symbols` re-exports
it.

- ``expressions``: polynomials of ``atoms`` in canonical form; ``substitution`` of symbols; ``parse`` of texts
- ``bounds``: interval arithmetic; ``piecewise``: exact comparisons of expressions of one symbol
- ``constraints``: required or assumed relations; ``equalities``: their consequences
"""
