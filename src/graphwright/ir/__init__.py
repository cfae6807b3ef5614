"""The graph IR and the loop IR.

``graph.py``, ``types.py`` and ``symbols.py`` define modules, graphs, types and symbolic sizes. ``op`` is the
contract of ops, with optional ``interfaces``, and ``builtin`` the ops that the IR itself needs. ``build.py``,
``clone.py``, ``match.py`` and ``verify.py`` build, copy, match and verify graphs, ``text`` prints and parses
them, ``inference`` infers types, and ``evaluate.py`` defines what they compute. ``loops`` is the IR of one
kernel.
"""
