"""What fusion saves and how often its decisions are right: commands, and the graphs, timing and fit that they
share.
"""
