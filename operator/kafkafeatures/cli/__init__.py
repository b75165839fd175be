"""The command line: one file per command, and what several of them print or ask."""
