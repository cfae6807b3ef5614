"""The algebra of sizes, and reasoning with constraints on them; :mod:`..symbols` re-exports
it.

- ``expressions``: polynomials in a canonical form; ``substitution`` of symbols; ``parse`` of texts
- ``bounds``: interval arithmetic
- ``constraints``: required or assumed relations; ``equalities``: their consequences
"""
