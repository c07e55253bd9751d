"""Tracking: a record of a job tells its state, its progress and its result.

A job is tracked when its payload has `track` or `retain`, or its class has one of these options. Its push makes the
record (`push`, `tie`), and each move and end of the job writes the record in its own step (`end`, `effects`). A thread
writes which jobs run, and how far they have got (`service`, `run`, `tracked_run`). Without a record, `status` searches
all places for the job: that is the engine's part, in `admin.job_lookup`.

- `record`: the texts of a record, field by field; its values are in `wire.job_record`.
- `job_options`: `track=` and `retain=` of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it, with a list of
  ended jobs by state.
- `api`: `workers.result` waits for the end of a job.
- `admin`: verbs of the inspector. `views`: `/api/status` and `/api/result`. `access`: the access rules.

For users: docs/job-states.md.
"""
