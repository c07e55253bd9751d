"""What a process knows of its work: counters, statistics of runs, its health report, the form of log lines."""
