"""The algebra of sizes, and what follows from constraints on them, under the names of :mod:`..symbols`.

- ``expressions``: sums of products in one canonical form; ``substitution`` of symbols; ``parse`` of texts
- ``bounds``: intervals
- ``constraints``: what is demanded or assumed of sizes; ``equalities``: what follows from that
"""
