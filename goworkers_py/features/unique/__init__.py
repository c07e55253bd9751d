"""Unique jobs: a lock keeps a second job with the same class and key out.

A push takes the lock in the step that pushes the job (`push`); a push that finds it taken does what `on_conflict` says.
The lock is in the payload of the job (`payload`), so that whatever ends the job frees it in the same step (`end`). A
job that waits holds its lock for the time of `unique_for`. While it runs, the lock names the process as its owner and
lasts as long as the run (`service`). Some options make a job ask for its lock again before it begins (`run`).

- `lock`: the values. `uniqueness`: the name of the lock, from the class and the key. `effects`: free, keep or own it.
- `job_options`: `unique_for=` and its relatives of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `holders`: whether the job of a lock is still there, for a push that meets the lock of a deleted job.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`, `access`: people.

For users: docs/unique-jobs.md and docs/not-twice.md.
"""
