"""Two servers: a queue service, such as RabbitMQ or Disque, with a store beside it, which is a Redis.

A pool works a queue of the service and the queue of the same name in the store. A plain push goes to the service. Jobs
that wait for a time, and those with a record, a lock, a batch, a group or a limit, go to the store, which can keep
them. A job is settled on the server that it came from. For a job of the service the store is written first, and the
job is acknowledged second (`settlement`): a process that is killed between the two runs it twice, and loses nothing.

- `broker`: puts the two brokers together. All parts but the transport are those of the store; its leases guard the jobs
  of the store alone.
- `transport`: publishes, consumes and settles on both.
- `service_probe`: a thread that finds out when a service that was away serves again: meanwhile the pools work in the
  store alone.
- `store_watch`: a thread that ends the wait of a fetcher at the service when a job comes in the store.

Neither server is known here: both are behind the contracts in `brokers.contracts`. For users: docs/rabbitmq.md.
"""
