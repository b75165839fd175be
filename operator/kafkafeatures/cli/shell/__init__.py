"""Parts that every command shares: finding the command, its output, exit codes, and values of flags."""
