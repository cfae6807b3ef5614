"""A second target in one folder: its code is the text of the loop IR, which the interpreter runs.

It supports f32 and i64, and regions with one reduction over one axis. Its memory consists of operands and
registers. ``target.py`` is the interface for the compiler; ``executor.py`` runs programs. Importing them
registers the device ``abacus``.
"""
