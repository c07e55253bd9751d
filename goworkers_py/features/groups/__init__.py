"""Groups: jobs wait until one job runs in the place of all of them.

The push of a *member* puts the job into its open group instead of its queue (`push`); so does a worker that meets a
member in a queue (`run`). A thread of each process that knows the class flushes the groups that are due (`service`):
the members become a *set*, and a job that aggregates the set comes into the queue, in one step. Its run calls the
function below `@NAME.aggregate` (`job`, `api`) with the arguments of the members (`run`). The end of that run
deletes the set, ends the members and pushes the job with the arguments that the function has returned, in one step too
(`end`, `effects`). So every member is aggregated exactly once, wherever a process dies.

- `job_options`: `group=` of a push, and when its group is flushed.
- `group`: the values. `payload`: the group in a job. `aggregates`: the functions that aggregate groups, by class.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `member_lookup`: finds one job among the members of groups.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`, `metrics`, `access`: people.

For users: docs/groups.md.
"""
