"""Real processes on a real server, and everything that can happen to them, all at once and at random.

    make chaos MINUTES=30 SEED=7

`work` is what the processes run, `nodes` are the processes, `monkeys` break things, the `producer` pushes jobs, the
`ledger` accounts for every one of them and `run` puts all of it together. Each job notes its runs in files, each
disturbance is noted with its begin and end, and the `judge` forgives a second run only where one of them explains it.

Everything that lasts a minute in earnest lasts a tenth of that here, see `nodes.SHORT`.
"""

EFFECTS = "chaos:effects"  # a hash in Redis: how often each attempt of each job took effect
