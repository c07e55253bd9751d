"""Decisions without I/O: which code runs a job, retries, suspects and poison, prefetch."""
