"""Central configurations: stored in the broker with versions, and taken by the processes.

`admin`: central configurations: stored in the broker with versions, and checked before.
`central`: central configurations: texts in the broker that change how much running processes do, and nothing else.
`config_change`: gives running launchers what a new configuration says, as far as it can change while they run.
`contract`: central configurations: texts by name, each with its last versions. A version is a number that only grows,
and never returns, also after a delete. Where a server has lost its last writes, a number comes again with another
text.
`differences`: the options in which two configurations differ, by name: `timeout`, `[queue:mail] concurrency`,
`[pool:web]`.
`findings`: the doctor's check of central configurations: processes that have not taken the newest version, or all of
it.
`record`: a version of a central configuration as JSON: {"v": 1, "text": ..., "by": ..., "at": ..., "of": ...}
`redis`: central configurations in Redis: a hash of the newest numbers, and a hash of versions for each configuration.
`service`: the configuration thread: takes new versions of the central configuration from which this process has
started.
`stored_config`: a version of a central configuration.
`views`: central configurations: their versions, what changed, who runs with which; back to an older one, delete.
"""
