"""Batches: jobs whose ends are counted together, with callbacks at the end.

Pushes inside of a block join its batch (`joining`, `push`). The push counts its job in the record of the batch, in its
own step; a batch that has ended takes no job. The end of a job is counted in the step of the end (`end`), wherever that
is: in a worker, at a recovery, or by people. The last end pushes the callbacks of the batch, and counts as an end in
the batch around it. So a batch holds numbers only, whatever its size.

- `batch`: the values. `payload`, `message`: the batch in a job. `effects`: the end of a job in its batch.
- `run`: the short cut of jobs that are in a batch and are nothing else.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.batch`. `batch_list`: `workers.batches`. `admin`: verbs of the inspector. `commands`, `views`,
  `findings`, `metrics`, `access`: people. `steps`: blocks of batches in `crash_points`.

For users: docs/batches.md.
"""
