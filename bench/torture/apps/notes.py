"""The programs of all Python systems share this: the job, and a client that reads from stdin what to push."""

import json
import os
import sys
import time

URL = os.environ["TORTURE_REDIS"]
RETRY_S = int(os.environ["TORTURE_RETRY_S"])
_LEDGER = os.open(os.environ["TORTURE_LEDGER"], os.O_WRONLY | os.O_APPEND)


class FailsOnce(Exception):
    """What a job raises that is told to fail."""


def run(job_id, milliseconds, failures):
    note("begin", job_id)
    time.sleep(milliseconds / 1_000)
    if failures and _is_first_failure(job_id):
        note("fail", job_id)
        raise FailsOnce(job_id)
    note("end", job_id)


def note(word, job_id):
    """One write, so that the kernel has the line whole."""
    line = f"{word} {time.time():.6f} {job_id} {os.environ['TORTURE_LIFE']} {os.getpid()}\n"
    os.write(_LEDGER, line.encode())


def _is_first_failure(job_id):
    """By a file, as each system counts its retries in another way."""
    try:
        os.close(os.open(os.path.join(os.environ["TORTURE_FAILED"], job_id), os.O_CREAT | os.O_EXCL))  # noqa: PTH118
    except FileExistsError:
        return False
    return True


def serve(push):
    """push(job_id, milliseconds, failures, at): `at` is 0, or a time in seconds since 1970."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            push(job["id"], job["ms"], job["failures"], job["at"])
            answer = {"pushed": True}
        except Exception as error:
            answer = {"error": repr(error)}
            print(job["id"], repr(error), file=sys.stderr, flush=True)
        print(json.dumps(answer), flush=True)
