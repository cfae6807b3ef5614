"""The commands of ``graphwright``, one file each."""
