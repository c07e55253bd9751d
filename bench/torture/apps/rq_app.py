"""`rq worker-pool --worker-class rq_app.Quick`; as a program, the client."""

from datetime import datetime, timezone

import notes
import redis
from rq import Queue, Retry, Worker


class Quick(Worker):
    """The pool has no options for these, which `rq worker` has."""

    def __init__(self, *args, **options):
        super().__init__(*args, worker_ttl=30, job_monitoring_interval=5, maintenance_interval=10, **options)


def push(job_id, milliseconds, failures, at):
    queue = Queue("default", connection=redis.Redis.from_url(notes.URL))
    job = {"args": (job_id, milliseconds, failures), "job_id": job_id, "retry": Retry(25, notes.RETRY_S)}
    if at:
        queue.enqueue_at(datetime.fromtimestamp(at, timezone.utc), notes.run, **job)
    else:
        queue.enqueue(notes.run, **job)


if __name__ == "__main__":
    notes.serve(push)
