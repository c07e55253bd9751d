"""Plain lists: jobs whose bodies other programs push without class, jid or options.

A queue of plain format has a level for a list of Redis, or a queue of RabbitMQ, that other programs know (`options`,
`queue_rules`). A process fetches bare bodies from it; fetching, settling and recovering them is the engine's part, see
`core.levels`. To be run, a body becomes a job in memory (`payload`), with what its message says beside it
(`properties`). One function, or the message class of the channel, runs all of them (`handler`), by the codec of the
queue or by the content type (`content`). Only where a body must wait, for a retry say, is the job stored.

- `message`: `message.properties`.
- `contract`, `redis`, `memory`: the lists of the other program's own consumers. `commands`: `recover --plain`, which
  takes back what they left.
- `access`: the access rules.

For users: docs/plain-lists.md and docs/rabbitmq-bodies.md.
"""
