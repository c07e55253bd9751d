"""The demo of `make run`: a shop whose jobs keep coming, and the pages that show them.

- `jobs.py` has the jobs. Each shows one thing that a job can do, and says which.
- `customers.py` pushes them: what the web site of a real shop would do, in a thread of this process.
- `__main__.py` starts both and prints where the pages are.
- `conf/demo.ini` has the queues with their threads, and all else that is configured.

Open the pages, and look at these first:

1. Overview: what was done, what fails, and what is wrong.
2. Failures: cards that were refused, and a mail server that is shaky. Click an error, and then one of its jobs.
3. Limits: `supplier` has a line of jobs that wait for their turn.
4. Batches, chains and groups: an import that fills, parcels on their way, reviews that become one mail.
5. Jobs that run: `Search::ReindexJob` with its progress. Cancel it, or stop the demo and start it again.
"""
