"""Low IR: tasks and shape programs, which the native executor runs; as text, as plain lists, as words."""
