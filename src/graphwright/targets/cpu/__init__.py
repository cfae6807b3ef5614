"""x86-64 processors: their ISAs, C from the loop IR, the C compiler, and the cache of what it compiled."""
