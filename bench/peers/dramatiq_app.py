"""`dramatiq dramatiq_app`; as a program, the client."""

import dramatiq
import harness
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=harness.URL))
ACTORS = {
    name: dramatiq.actor(getattr(harness, name), actor_name=name, queue_name="default")
    for name in ("noop", "nap", "stamp")
}

if __name__ == "__main__":
    harness.serve(lambda job, *args: ACTORS[job].send(*args) and None)
