"""Decisions without I/O: which code runs a job, retry, crashing jobs, prefetch."""
