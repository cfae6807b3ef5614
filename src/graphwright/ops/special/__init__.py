"""Special functions: elementwise ops that are formulas of elementary ones."""
