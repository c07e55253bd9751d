"""`celery -A celery_app worker`; as a program, the client."""

import celery
import harness

app = celery.Celery("bench", broker=harness.URL)
app.conf.broker_connection_retry_on_startup = True  # only silences a warning
TASKS = {name: app.task(getattr(harness, name), name=name, ignore_result=True) for name in ("noop", "nap", "stamp")}

if __name__ == "__main__":
    harness.serve(lambda job, *args: TASKS[job].delay(*args) and None)
