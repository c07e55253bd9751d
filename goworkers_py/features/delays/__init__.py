"""The delay queue: tasks that are due at a time, in any program, kept by a persistence.

`api`: the delay queue: tasks that run after a delay, on a time wheel, and outlive the process.
`book`: the tasks in the persistence and those in the timers of this process, changed together.
`contract`: the contract of a delay queue's persistence: where its tasks outlive the process.
`dispatcher`: the thread between the lines of due tasks and the workers.
`ends`: the ends of runs, which reach the persistence also after an outage.
`executors`: which code runs a task, by its type.
`held_tasks`: reports tasks that do not run by themselves any more: to the log and to the user's functions.
`keeper`: the thread that looks after the persistence: the lease, the tasks of other processes, and what could not be
told.
`machinery`: the threads of a started delay queue, from the start to the stop.
`memory`: the persistence of a delay queue that is lost with the process.
`open_persistence`: the persistence of a delay queue whose program names none.
`pool`: the threads that run tasks.
`redis`: the persistence of a delay queue in Redis, which any number of processes may share.
`redis_lists`: the tasks of a delay queue as the Go program of a time wheel keeps them, which has no absolute due
times.
`redis_scripts`: calls of the scripts of a delay queue. Each answers first with the time of its step. So a delay queue
learns the clock of the server with each call that it makes anyway.
`runs`: runs tasks, and decides what becomes of one that failed: by the retry policy of jobs.
`shared_book`: the tasks in a persistence that several processes share, and those in the timers of this process.
`sqlite`: the persistence of a delay queue in a file of SQLite, which several processes of one machine may share.
`task`: a task of a delay queue, and the record in which a persistence keeps it.
`testing`: the suite of tests that each persistence of a delay queue must pass, also one of your own.
`timers`: the tasks of a delay queue in this process: those in the wheel, those that are due, and those that are held.
`wheel`: a time wheel: which timers are due, decided without a clock and without input or output.
`wheel_thread`: the thread that turns the wheel. It calls no persistence and no code of the user, so it never waits
for either.
"""
