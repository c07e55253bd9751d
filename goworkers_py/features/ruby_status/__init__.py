"""Statuses for Ruby: the gem sidekiq-status shows a job that runs here, and how far it has got.

A class with the option `sidekiq_status` is tracked (`features.tracking`), and its jobs have, beside their record, the
hash in which the gem looks. Tracking knows nothing of that: the run of such a job begins here (`run`), and gives its
tracked run the effects that are to happen in the step that writes the record of a running job. Each end of the run adds
an effect too (`effects`). A job that killed its processes is shown as failed by its recovery (`end`). Ruby can ask to
stop a job in the same hash.

- `status`: the words and the fields of the hash. `job_options`: `sidekiq_status=` of `@job`.
- `redis_part`, `lua/`: the hash in Redis, and the channel on which it is told. `memory`: no Ruby reaches it.
- `access`: the access rules.

For users: docs/job-states.md.
"""
