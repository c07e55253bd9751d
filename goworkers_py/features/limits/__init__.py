"""Limits: how many jobs of the whole fleet run at once, and how many begin in a time.

A limit has a *slot* for each key, or one for all jobs. A job takes a place in the slot before it begins (`run`), and
its end frees the place (`end`). While the slot is full, the job waits in the slot's *line*. The thread of the releaser
looks at the lines and lets the next jobs go (`service`). A job of a strict limit (`concurrent=1`) takes its place, or
joins the line, at its push already (`push`). Places are freed when their job ends or is recovered, never by a time.

- `limit`: the values. `payload`: the slots in a job. `effects`, `end`: places follow the moves and the end of a job.
- `limiting`: the slots that a job needs, by its class. `options`, `configured`: the sections [limit:NAME].
- `job_options`: `limits=` of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.limit`. `admin`: verbs of the inspector. `commands`, `views`, `findings`, `metrics`, `access`: people.
- `steps`: blocks under a limit in `crash_points`.

For users: docs/limits.md, docs/not-too-many-at-once.md and docs/one-after-the-other.md.
"""
