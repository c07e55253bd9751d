"""`celery -A celery_app worker`; as a program, the client."""

from datetime import datetime, timezone

import celery
import notes

app = celery.Celery("torture", broker=notes.URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    broker_connection_retry_on_startup=True,  # only silences a warning
    broker_transport_options={"visibility_timeout": 60},
)


@app.task(name="torture", autoretry_for=(notes.FailsOnce,), default_retry_delay=notes.RETRY_S, max_retries=25)
def torture(job_id, milliseconds, failures):
    notes.run(job_id, milliseconds, failures)


def push(job_id, milliseconds, failures, at):
    eta = datetime.fromtimestamp(at, timezone.utc) if at else None
    torture.apply_async((job_id, milliseconds, failures), eta=eta, task_id=job_id)


if __name__ == "__main__":
    notes.serve(push)
