"""Groups: jobs that wait until one job runs in the place of all of them.

`admin`: groups, for people: shows their members, flushes them, and gives them settings of their own.
`aggregates`: the functions that aggregate groups, one for a class: see `Job.aggregate`.
`api`: wraps the function below `@job.aggregate`: it gets the members' arguments, and pushes the job that runs
instead.
`commands`: `groups list`, `groups show`, `groups flush`, `groups set`, `groups delete`: jobs that wait to be
aggregated.
`contract`: groups: jobs that wait to be aggregated. A push puts its job into a group, see `GroupMembership`; so does
the effect of a worker that meets a member in a queue.
`end`: how the members of a set end: aggregated into one job, or dropped before.
`findings`: the doctor's check of groups: those that nobody aggregates, and sets whose job is gone.
`group`: a group: jobs of one class and queue that wait to be aggregated, and run as one job then.
`group_entry`: the entry of a group among the groups of its class, and the keys of a push that joins a group, see
lua/group.lua.
`group_table`: the groups in the state of a memory broker.
`link`: the link around the function that aggregates a set of members: its end is that of the members.
`member_lookup`: finds one job among the members of groups.
`memory`: the groups of the memory broker, for the threads that flush them, and for people.
`metrics`: how many groups and members there are, for `stats` and for Prometheus.
`payload`: the group of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["group"], "group": {...}}}`.
`push`: which group a job joins, and when that is flushed: by the options of its push and of its class.
`redis`: the groups in Redis: a list and a hash for each open group, a list for each set of members, see
lua/group.lua.
`run`: the work on a job of a group: a member that it meets in a queue joins its group, and the job that aggregates a
set gets the set's members.
`service`: the thread that flushes groups: it pushes the job that aggregates a group when the group is due.
`views`: groups of jobs that wait to be aggregated: members, when they are due; flush, settings, delete.
"""
