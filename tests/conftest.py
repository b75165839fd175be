"""The same examples on every run, and no deadline per example: the machine's mood is not what is tested."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
