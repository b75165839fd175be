"""Reports for people: the status and its conditions, Events, and the documents of the command line."""
