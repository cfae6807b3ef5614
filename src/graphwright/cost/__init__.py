"""The cost model: a table of machine rates, and predictions from it."""
