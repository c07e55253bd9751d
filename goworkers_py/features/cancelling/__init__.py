"""Cancelling: a job that people cancel does not begin, or is interrupted.

`admin`: cancels one job, or all jobs that a filter wants.
`contract`: tombstones: the jobs that are to be cancelled wherever a process meets them.
`memory`: tombstones in the memory of this process.
`redis`: tombstones in Redis: a hash, and a channel on which new ones are told.
`service`: the canceller thread: knows the tombstones of the fleet, and interrupts running jobs that were cancelled,
or given to another process.
`tombstone`: a request to cancel a job wherever it is, and one to end a job that runs: it was cancelled, or given to
another process.
`tombstones`: the tombstones of jobs that are to be cancelled, see `features.cancelling.contract`.
"""
