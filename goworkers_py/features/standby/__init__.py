"""Standby: one process of several works, and the others are ready to take over.

`commands`: `leader show` and `leader step-down`: the elections of processes with `standby`.
`contract`: elections: of several processes one leads at a time. The leader has a lease, and its term has an epoch.
`election`: who leads: the words of an election.
`elector`: the elector thread of a process with `standby`: looks at the lease of the leader, bids when there is none,
and renews the lease of its own term.
`follower_report`: shows a process that stands by to the fleet. A leader is shown by its heartbeat.
`memory`: elections in the memory of this process: of several daemons in one program, one works.
`redis`: elections in Redis: a lease that expires, and a record with the last epoch, which never does.
`service`: the thread of a process with `standby` that does the work of each term: see `standby`.
`standby`: a process with `standby`: of N such processes one works, and the others are ready to take over.
"""
