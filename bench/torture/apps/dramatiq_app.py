"""`dramatiq dramatiq_app`; as a program, the client."""

import math
import time

import dramatiq
import notes
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=notes.URL, maintenance_chance=100_000))


@dramatiq.actor(min_backoff=notes.RETRY_S * 1_000, max_backoff=notes.RETRY_S * 1_000)
def torture(job_id, milliseconds, failures):
    notes.run(job_id, milliseconds, failures)


def push(job_id, milliseconds, failures, at):
    delay = max(0, math.ceil((at - time.time()) * 1_000)) if at else None
    torture.send_with_options(args=(job_id, milliseconds, failures), delay=delay)


if __name__ == "__main__":
    notes.serve(push)
