"""Iterable jobs: generator functions that go on where an earlier run has stopped.

Each `yield VALUE` of the job's code says that all work up to VALUE is done: VALUE is the job's *cursor*. A run stores
it now and then (a checkpoint), and in the step that settles the run. A run ends early at a `yield`: when its process
stops, when its time slice is over, when the job is cancelled. Then the job goes back into its queue, and its next run,
in whatever process, gets the cursor. Each run has a number, so that an earlier run that goes on by mistake stores
nothing.

- `iterable`: which functions are iterable jobs. `cursor`: the values that a broker keeps.
- `run`: runs such a job from its cursor on. `effects`: the cursor is kept, or forgotten, in the step of the end.
- `job_options`: `time_slice=` and `checkpoint=`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it, in Redis with the keys
  of Sidekiq 7.3. `access`: the rules for these keys.
- `steps`: checkpoints and yields in `crash_points`.

For users: docs/iteration.md.
"""
