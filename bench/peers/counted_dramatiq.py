"""`dramatiq counted_dramatiq`; as a program, it fills the queue."""

import counted
import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

dramatiq.set_broker(RabbitmqBroker(url=counted.URL))
noop = dramatiq.actor(counted.noop, actor_name="noop", queue_name="default")

if __name__ == "__main__":
    for _ in range(counted.COUNT):
        noop.send()
