"""An independent check of memory plans, which shares no algorithm with the planner."""
