"""`pyworkers run -r ours_app`; as a program, the client."""

import os

import notes

import goworkers_py as workers

os.environ["PYWORKERS_BROKER"] = notes.URL


@workers.job("Torture", queue="default", retry_in=notes.RETRY_S)
def torture(job_id, milliseconds, failures):
    notes.run(job_id, milliseconds, failures)


def push(job_id, milliseconds, failures, at):
    if at:
        torture.enqueue_at(at, job_id, milliseconds, failures)
    else:
        torture.enqueue(job_id, milliseconds, failures)


if __name__ == "__main__":
    notes.serve(push)
