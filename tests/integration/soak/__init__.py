"""A fleet under a steady load for hours: nothing may grow. `python -m soak`, see docs/internals/soak.md.

`jobs` are the jobs, of every kind. `producer` pushes them, and `ledger` knows which have not ended yet. `fleet` starts
the server and the daemons, deploys and kills. `samples` reads what may grow, `judge` tells whether it has grown, and
`report` writes the page.
"""

from __future__ import annotations

SAMPLE_EVERY_S = 30.0
DRAIN_S = 300.0  # for the last jobs, after the last push
# What happens to the daemon `changing`, and to the logs of both.
DEPLOY_EVERY_S, KILL_EVERY_S, REOPEN_EVERY_S = 600.0, 1_800.0, 600.0
# What people do.
CLI_EVERY_S, PAGES_EVERY_S, CALL_EVERY_S, ACTION_EVERY_S = 30.0, 5.0, 10.0, 2.0

ENDS = "SOAK_ENDS"  # variable: the address of the socket to which a job sends its end
PLAIN_QUEUE, PLAIN_LIST = "listed", "soak.listed"
