"""Records the events of runs: tasks with their times and counters, plans, memory."""
