"""Periodic jobs: pushed at the times of a schedule, once in the whole fleet.

`admin`: the part of the inspector that reads and changes the schedules of periodic jobs.
`api`: the periodic jobs that code declares, see `App.periodic`.
`commands`: `periodic list|show|history|pause|resume|run|set|forget|import`: periodic jobs.
`contract`: the schedules of periodic jobs. Any number of processes look at the clock, and each slot fires once.
`findings`: checks of the doctor: schedules that do not fire, or whose jobs nobody runs.
`foreign_schedule`: reads the schedules of sidekiq-cron and sidekiq-scheduler, as their gems have written them.
`memory`: the schedules of periodic jobs in the memory of this process.
`options`: the sections [periodic:NAME].
`periodic_job`: a periodic job of this process: its schedule, and how its pushes are made.
`plan`: puts together the periodic jobs of a process: those that its code declares, and those of its configuration.
`record`: a schedule of a periodic job as JSON, and what people have changed of one.
`redis`: the schedules of periodic jobs in Redis, each a hash, see lua/register_schedules.lua and
lua/fire_schedule.lua.
`schedule`: periodic jobs: their schedules, as a program declares them, and as a broker keeps them.
`schedule_details`: prints all that is known of one schedule.
`schedule_table`: the schedules of periodic jobs in the state of a memory broker.
`service`: the thread that fires periodic jobs. Each process with periodic jobs has one, and all of them fire at the
same slots: the broker settles each slot once, see `features.periodic.contract`.
`slots`: the slots of a periodic job: the times at which it fires, by its rule.
`testing`: fires the periodic jobs of a test block, as daemons would that run all the time.
`views`: periodic jobs: when they fire, what became of the last firings; pause, run now, other rules.
"""
