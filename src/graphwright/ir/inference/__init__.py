"""Type inference: of one node, of values that loops carry, and the cache of its results."""
