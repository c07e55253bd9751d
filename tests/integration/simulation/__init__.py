"""A whole fleet in one thread, under a virtual clock, from a seed. `python -m simulation --help` runs it."""
