"""Real processes on a real server, and everything that can happen to them, all at once and at random.

    make chaos MINUTES=30 SEED=7            one run
    make chaos MINUTES=30 SEEDS=10 SEED=7   ten runs of three minutes each, with the seeds 7 to 16, and their sum
    make chaos MINUTES=10 PARENTS=1         three parents with two children each, not four single processes

`work` is what the processes run, `nodes` are the processes, `monkeys` break things, the `producer` pushes jobs, the
`ledger` accounts for every one of them and `run` puts all of it together. Each job notes its runs in files, each
disturbance is noted with its begin and end, and the `judge` forgives a second run only where one of them explains it.

Some processes run pools of several queues, by order or by weights, and others a pool for each queue, see `pools`.

Some jobs are `parents`: atomic jobs that push children. Each run of a parent notes the set of children that it means
to push. A parent that has ended well has one of its sets, whole; no other set may have a child, see `families`.

Some jobs are killers, which end the process that runs them. Each of them must come to lie in the dead set as poison,
and no other job may, but where a monkey's kill of that very process, or its lost lease, looked like the job's own deed.
Some payloads are odd: each of them must have run or lie in the dead set.

Some jobs are `stated`: their states are recorded, and some are cancelled, expire or are iterable, see `states`.

Some jobs are `shaped`: unique, limited, periodic, grouped, or in batches and chains, see `shape_judge`.

Some jobs are `bounded`: by limits, rates, locks and priorities, with blocks of code under limits, in jobs and in
programs of their own; some are bodies of a plain list. See `bound_judge`.

In each long run the server is away for 90 s, for all, while jobs and blocks run that hold places and locks: `outage`.

At the end nothing is left behind: `left_keys` has a table of the keys that may be there.

Everything that lasts a minute in earnest lasts a tenth of that here, see `nodes.SHORT`.
"""

import re

EFFECTS = "chaos:effects"  # a hash in Redis: how often each attempt of each job took effect

# What a jid begins with, which tells of what kind the job is.
JOB, KILLER, ODD, PARENT, CHILD, STATED, SHAPED = "job", "killer", "odd", "parent", "child", "stated", "shaped"
BOUNDED, BODY = "bounded", "body"  # the latter is the name of a body of a plain list
# That of a child goes on with the run of its parent: number of the process, number of the run, number of the child.
JID = re.compile(rb"child\d{7}-\d+-\d+-\d+|(?:job|killer|odd|parent|stated|shaped|bounded|body)\d{7}")
