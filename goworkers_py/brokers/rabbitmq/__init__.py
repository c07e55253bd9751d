"""RabbitMQ: a queue service. It delivers a job again by itself when the connection of its consumer has gone.

A pool of queues has a *connection* of its own (`consuming_connection`), and RabbitMQ sends jobs over it, as many as the
pool has room for: each queue has a *flow* with a window. The fetcher's thread takes them from there (`consumer`). All
threads of a process publish over one other connection (`publisher`), and wait until RabbitMQ has confirmed what they
publish. A settlement publishes first what an outcome leaves behind (a retry, a dead job, the pushes of the job), and
acknowledges second (`settlement`): a process that is killed between the two runs the job twice, and loses nothing.
RabbitMQ knows no times. So a job that waits goes from queue to queue, step by step (`names`). `transport` puts this
together.

- `broker`: what the broker can do, and how it is opened. `address`: what pika needs of `amqp://...`.
- `connection`: one connection of pika and the thread that owns it, the base of both kinds; questions over it.
- `declarer`: declares a queue that is not there. `names`: the names and the arguments of all queues.
- `returns`: jobs whose messages come again here: their run goes on, or they have ended. It also warns of queues that
  would drop a job which comes back often.
- `death_clues`: which jobs have killed their processes.
- `foreign`: messages of other programs. `headers`: reads their headers, of which pika cannot read all.
- `translation`: errors of pika in our words.

All but `broker` and `names` need pika, and are imported when the broker is opened. A queue service with a Redis beside
it is in `brokers.two_servers`; without one, `brokers.absent` stands in for what it lacks. For users: docs/rabbitmq.md.
"""
