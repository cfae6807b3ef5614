"""Measuring of what costs predict: the statistics, a pair of programs in turns, the search, the record."""
