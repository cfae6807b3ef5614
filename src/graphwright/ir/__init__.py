"""The graph IR: types, symbols, graphs, ops' contract, text, verifier, matcher; and the loop IR of kernels."""
