"""Periodic jobs: pushed at the times of a schedule, once in the whole fleet.

Code declares them (`api`), or a section [periodic:NAME] does (`options`). `plan` makes them ready at the start: their
schedules, and how each push is made. Each process with periodic jobs has a thread (`service`), which registers its
schedules in the broker and fires the *slots* that are due. No process is elected: the broker settles each slot once
(`contract`), by a number that each change of a schedule makes greater.

- `schedule`: the values. `record`: a schedule as JSON. `slots`: the slots of a rule.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `foreign_schedule`: reads the schedules of sidekiq-cron and sidekiq-scheduler.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`: people.
- `testing`: the slots of a test block whose clock travels.

For users: docs/periodic-jobs.md.
"""
