"""Chains: each job is pushed when the one before it has ended well.

`admin`: reads chains and cancels them, for programs and for the command line: `workers.chains`.
`api`: chains in the program that pushes them: `workers.chain(fetch.s(url), parse.s(workers.PREVIOUS)).enqueue()`.
`chain`: a chain of jobs, as a broker keeps it and as people see it.
`chain_place`: the place of a chain as arguments of the scripts. Only this module writes it, and only chain.lua reads
it.
`chain_table`: the chains in the state of a memory broker, see `features.chains.contract`.
`commands`: `chains list`, `chains show`, `chains cancel`.
`contract`: chains: each link is pushed in the step in which the job of the link before ends well, see the effect
`NextLink`.
`memory`: chains in the memory of this process.
`payload`: the chain of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["chain"], "chain": {"id": ..., "n": 1,
...}}}`.
`redis`: chains in Redis, each a hash, see lua/chain.lua.
"""
