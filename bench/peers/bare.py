"""The bare loop that idle latency is held against: BRPOPLPUSH, run, LREM, with nothing around; pushes are one LPUSH."""

import json
import sys

import harness
import redis

QUEUE, IN_PROGRESS = "queue:default", "queue:default:bare:inprogress"


def work() -> None:
    client = redis.Redis.from_url(harness.URL, socket_timeout=None)
    while True:
        raw = client.brpoplpush(QUEUE, IN_PROGRESS, 2)
        if raw is not None:
            job = json.loads(raw)
            getattr(harness, job["class"].lower())(*job["args"])
            client.lrem(IN_PROGRESS, -1, raw)


def push(client: redis.Redis, job: str, *args: object) -> None:
    client.lpush(QUEUE, json.dumps({"class": job.capitalize(), "args": args}))


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    else:
        producer = redis.Redis.from_url(harness.URL)
        harness.serve(lambda job, *args: push(producer, job, *args))
