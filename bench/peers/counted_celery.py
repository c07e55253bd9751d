"""`celery -A counted_celery worker`; as a program, it fills the queue."""

import celery
import counted

app = celery.Celery("bench", broker=counted.URL)
app.conf.broker_connection_retry_on_startup = True  # only silences a warning
noop = app.task(counted.noop, name="noop", ignore_result=True)

if __name__ == "__main__":
    for _ in range(counted.COUNT):
        noop.delay()
