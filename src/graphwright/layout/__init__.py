"""Memory layouts: the passes that assign them, and TransData, the op that changes one."""
