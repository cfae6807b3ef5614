"""Low IR: tasks and shape programs, what the native executor walks."""
