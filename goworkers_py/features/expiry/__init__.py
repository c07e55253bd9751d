"""Expiry: a job whose time has passed does not begin.

A push writes the time into the payload (`job_options`, `payload`): an option that counts from the push becomes one that
does not. A rung around the run looks at it before the job begins, and once more when a suspect has waited to run alone
(`run`). A job that goes on later, as an iterable one does, was begun in time and loses the field.

- `message`: `message.expires_at`. `api`: the functions of `workers.on_expire`.
- `again`: a job that people push again gets as much time as the first one had.
- `commands`: `pyworkers enqueue --expires-in`. `views`: the time on the page of a job.

For users: docs/expiring-jobs.md.
"""
