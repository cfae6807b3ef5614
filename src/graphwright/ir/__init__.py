"""The graph IR: types, symbols, graphs, the contract of ops, text, verifier, matcher; and the loop IR."""
