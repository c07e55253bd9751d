"""Plain lists: jobs whose bodies other programs push without class, jid or options.

`payload`: a body from a plain list, as a job: other programs push bodies to lists of Redis, or to queues of RabbitMQ,
without class, jid or options.
`plain_queues`: finds the code that runs the bodies of other programs, from a plain list or a queue of RabbitMQ.
`run`: reads the bodies of other programs as jobs, see `features.plain_lists.payload`.
"""
