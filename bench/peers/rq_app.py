"""The client of `rq worker-pool`, which imports the jobs from the harness by their names."""

import harness
import redis
from rq import Queue

queue = Queue("default", connection=redis.Redis.from_url(harness.URL))


def push_many(job, rows):
    queue.enqueue_many([Queue.prepare_data(f"harness.{job}", args=row) for row in rows])


if __name__ == "__main__":
    harness.serve(lambda job, *args: queue.enqueue(f"harness.{job}", *args) and None, push_many)
