"""The verbs of ``graphwright``, one file each."""
