"""Breaks job systems, ours and others, in the same way at the same moments, and accounts for every job.

    bin/torture ours --seed 7 --minutes 3
    bin/torture --all

A run has a Redis of its own, whose append-only file keeps each acknowledged write, two workers, and one producer. Each
of the three has a proxy of its own before Redis. `plan` draws jobs and faults from the seed, before anything starts and
without a look at the system. So each system gets the same jobs, and the same faults at the same moments. `run` carries
them out, with the `fleet`, the `producer`, the `server` and the `proxy`. Each job notes its begin and its end in the
`ledger`, a file that no system knows of. The `judge` reads nothing else.

A module in `systems` tells how one system is installed, started and set up, by its own documentation. Its jobs and its
producer are a program in `apps` (Python, Ruby) or `go`.
"""
