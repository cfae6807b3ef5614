"""C text of helper functions; :class:`..support.Support` defines those that are used."""
