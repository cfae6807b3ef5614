"""The result of compilation: a tree of programs, dispatches between them by input shape, and host programs
that call them.
"""
