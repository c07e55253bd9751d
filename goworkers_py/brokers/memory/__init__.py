"""The broker in the memory of one process: for examples, for tests, and for a first try."""
