"""A second target in one folder: its code is the text of the loop IR, which the interpreter runs.

It knows f32 and i64, regions with one reduction over one axis, and no memory but registers beside that of
the operands. ``target.py`` is what the compiler asks, ``executor.py`` what runs a program. Importing them
registers the device ``abacus``.
"""
