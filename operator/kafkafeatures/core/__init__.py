"""Every decision, and every text for people. Pure: no I/O, no clock, no logging."""
