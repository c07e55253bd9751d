"""The table of docs/comparison.md. The numbers in the last column are the defaults of the options that set them."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.config.options import Config
from reference.markdown import table

DAY_S = 86_400


def tables() -> Mapping[str, str]:
    our = Config()
    rows = [
        (
            "a process is killed",
            "its jobs are lost (without the paid version)",
            "its jobs wait for a process of the same name",
            "its jobs go back to their queue",
        ),
        (
            "a job kills its process, each time",
            "lost at the first (without the paid version)",
            "its process, when started again, runs it again",
            f"`dead` after {our.poison_limit} killed processes (`poison_limit`)",
        ),
        (
            "a stop, and a job still runs",
            "after 25 s it goes back to its queue",
            "the process waits for it, however long",
            f"after {our.timeout:g} s (`timeout`) it goes back to its queue",
        ),
        (
            "`retry` is absent",
            "the class's option; `true` unless it says otherwise",
            "no retry; both omit `retry` when it is false",
            "the Python job's option; `true` unless it says otherwise",
        ),
        (
            "`retry: true`",
            "25 retries (`max_retries`)",
            "25 retries; go-workers2 reads `retry_max`",
            f"{our.max_retries} retries (`max_retries`); `retry_max` is read too",
        ),
        (
            "`retry: N`",
            "N retries",
            "go-workers makes one more; go-workers2 makes none from v0.10.3 on",
            "N retries",
        ),
        ("back-off", "changed over the versions", "that of Sidekiq up to 6.2", "that of Sidekiq 8"),
        ("failed jobs wait in", "`retry`", "`goretry`", "`retry`; `goretry` is Go's and is not polled"),
        ("no retries left", "`dead`", "dropped", "`dead`"),
        (
            "dead jobs are kept",
            "10,000, for six months",
            "none",
            f"{our.dead_max_jobs:,}, for {our.dead_timeout / DAY_S:g} days (`dead_max_jobs`, `dead_timeout`)",
        ),
        ("not JSON", "`dead`", "in progress for ever", "`dead`"),
        (
            "unknown class",
            "fails and is retried",
            "a queue has one function",
            "fails and is retried; or one function for the queue",
        ),
        (
            "delayed jobs",
            "start seconds late",
            "start up to 15 s late",
            f"start on time; up to {our.poll_interval:g} s late (`poll_interval`) if another program scheduled them",
        ),
        (
            "threads",
            "one pool for all queues, by order or weight",
            "a pool for each queue",
            "a pool for each queue, or for several by order or weight",
        ),
        (
            "a job pushes jobs, then fails",
            "pushed, and pushed again by its retry",
            "pushed, and pushed again by its retry",
            "the same; with `atomic` none is pushed, and each once when the job has ended well",
        ),
        (
            "client middleware",
            "at the push and again when a delayed job becomes due",
            "none",
            "at the push",
        ),
        ("`processed` in the statistics", "all runs", "successes", "all runs"),
        (
            "a page for a browser",
            "Sidekiq Web",
            "none; `/stats` as JSON",
            "pages of its own, and Sidekiq Web shows its processes and jobs",
        ),
    ]
    return {"differences": table(["", "Sidekiq", "go-workers, go-workers2", "goworkers-py"], rows)}
