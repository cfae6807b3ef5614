"""Ops that the IR itself needs: constants, regions that become one kernel or one program, checks, and nodes
of the source model that stay unchanged. All other ops are in :mod:`graphwright.ops`.
"""
