"""Chains: each job is pushed when the one before it has ended well.

The links that are still to come wait in the record of the chain. The end of a job tells its chain (`end`), in the step
of the end. When all parts of a link have ended well, the next link is pushed in that step, with their results in the
places of PREVIOUS. Another end stops the chain; when that job is retried by hand and ends well, the chain goes on.

Chains use batches: a chain that is pushed in the block of a batch joins each of its links to that batch.

- `chain`: the values. `payload`: the chain in a job. `effects`: the end of a link. `run`: its result.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `api`: `workers.chain`. `chain_list`: `workers.chains`. `admin`: verbs of the inspector. `commands`, `views`,
  `metrics`, `access`: people. `steps`: chains in `crash_points`.

For users: docs/chains.md.
"""
