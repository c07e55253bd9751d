"""Batches: jobs whose ends are counted together, with callbacks at the end.

`admin`: reads and changes batches, for programs and for the command line: `workers.inspector.batches`.
`api`: batches in the program that opens them: `with workers.batch("import", on_success=report): ...`.
`batch`: a batch of jobs, as a broker keeps it and as people see it.
`batch_place`: the place of a batch as arguments of the scripts: its record, those of the batches around it, and where
its callbacks go. Only this module writes it, and only batch.lua reads it.
`batch_table`: the batches in the state of a memory broker, see `features.batches.contract`.
`commands`: `batches list`, `batches show`, `batches cancel`, `batches close`.
`contract`: batches: jobs whose ends are counted together. The last end pushes the callbacks of the batch, in its own
step.
`findings`: finds batches that do not end.
`joining`: which batch the pushes of the code that runs now join.
`memory`: batches in the memory of this process.
`payload`: the batch of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["batch"], "batch": {"id": ..., "to":
[...]}}}`.
`redis`: batches in Redis, each a hash, see lua/batch.lua.
`run`: tells the jobs that are in a batch and are nothing else that a worker must look at.
`views`: batches and chains: how far they have come, what has failed; cancel, close.
"""
