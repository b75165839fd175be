"""A third kind of stage: it unregisters brokers that are gone. `test_new_effect.py` puts it into a copy of the tree."""
