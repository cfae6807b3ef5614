"""C text of helper functions; :class:`..prelude.Prelude` defines those that are used."""
