"""The graph IR (types, symbols, graphs, the op interface, text format, verifier, pattern matcher) and the
loop IR.
"""
