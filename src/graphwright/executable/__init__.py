"""What compiling gives: a tree of programs, of choices between them by shape, and of what runs between
them.
"""
