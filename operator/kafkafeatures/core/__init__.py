"""Every decision, and the words in which people read it. Pure: no I/O, no clock, no logging."""
