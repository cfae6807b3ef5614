"""Loop IR: what one kernel does, block by block. ``nodes`` (the IR), ``text`` (print, parse), ``interpret``
(its meaning)."""
