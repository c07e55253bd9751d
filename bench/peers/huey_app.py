"""`huey_consumer huey_app.huey`; as a program, the client."""

import harness
from huey import RedisHuey

huey = RedisHuey("bench", url=harness.URL)
TASKS = {name: huey.task(name=name)(getattr(harness, name)) for name in ("noop", "nap", "stamp")}

if __name__ == "__main__":
    harness.serve(lambda job, *args: TASKS[job](*args) and None)
