"""The loop IR: the code of one kernel as loops, loads and stores.

``nodes`` defines the IR, ``text`` prints and parses it, ``interpret`` defines its meaning in NumPy, and
``verify`` checks its rules.
"""
