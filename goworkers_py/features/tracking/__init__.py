"""Tracking: a record of a job tells its state, its progress and its result."""
