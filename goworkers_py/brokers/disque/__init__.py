"""Disque: a queue service. It delivers a job again by itself when nobody has acknowledged it within its RETRY.

Disque speaks the protocol of Redis, so the driver of Redis carries the commands (`nodes`): to one node of its cluster
at a time, and to the next one when that is away. The fetcher of a pool takes jobs by GETJOB (`consumer`). While they
run, a thread asks Disque for more time for them (`keeper`). A settlement adds first what an outcome leaves behind, and
acknowledges second (`settlement`): a process that is killed between the two runs the job twice, and loses nothing. A
job that many processes have not ended is buried. `transport` puts this together.

- `broker`: what the broker can do, and how it is opened. `address`: reads `disque://...`.
- `commands`: how a job is added and ended; the names of the queues.

A queue service with a Redis beside it is in `brokers.two_servers`; without one, `brokers.absent` stands in for what it
lacks. For users: docs/disque.md.
"""
