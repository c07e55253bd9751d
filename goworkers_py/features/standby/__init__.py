"""Standby: of several processes with `standby` one works, and the others are ready to take over.

The processes find their *leader* in an *election*. Its lease is a record in the broker, and is the lease of a fence,
see `core.fence`: all that a leader writes passes this fence, so one that was paused for too long changes nothing when
it goes on. A `standby` stands in the place of a launcher. Its `elector` looks at the lease, bids, renews and resigns;
for each term that it wins, the thread of `service` starts a launcher of its own, on a broker behind the fence. A
process that stands by is shown to the fleet by `follower_report`.

- `election`: the values, and the functions of `on_lead` and `on_follow`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `admin`: the verb of the inspector. `commands`, `views`, `metrics`, `access`: people.

For users: docs/standby.md.
"""
