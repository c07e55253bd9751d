"""Counters, run statistics, the health report of a process, log formats."""
