"""Cancelling: a job that people cancel does not begin, or is interrupted.

A cancel leaves a *tombstone* in the broker first, then removes the job from where it waits (`admin`). Each process
knows all tombstones: its canceller thread is told of a new one at once, and compares now and then (`service`). While
there is one, an alarm is raised, so that every job is looked at before it begins (`run`); no job pays a look at the
broker. The thread throws JobCancelled into a job that runs, by `links.interruption`. The process that meets the job
settles it with the effect MeetTombstone (`effects`): the tombstone goes, and the caller is told how the job has ended.

A batch or a chain is cancelled by one tombstone under its name, which its jobs have in their payloads. What interrupts
a run is of the engine, as are the outcome Cancelled and the runs of jobs that were given to another process.

- `tombstone`: the values. `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do
  it. Other programs cancel in ways of their own: `ForeignCancel` in the parts of Redis.
- `api`: the functions of `workers.on_cancel`. `admin`: verbs of the inspector.
- `commands`, `views`: people cancel.
- `steps`: a job that cancels others, in `crash_points`.

For users: docs/cancelling.md and docs/stop-it.md.
"""
