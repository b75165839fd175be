"""The metadata log: who leads it, following it, and what its records say of the past."""
