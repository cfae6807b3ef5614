"""Special functions: elementwise ops that decompose into formulas of elementary functions."""
