"""`taskiq worker taskiq_app:broker`; as a program, the client. The stream broker: of the two it is the reliable one."""

import asyncio

import harness
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(url=harness.URL)
TASKS = {name: broker.task(task_name=name)(getattr(harness, name)) for name in ("noop", "nap", "stamp")}


class Producer:
    started = False

    async def push(self, job, *args):
        if not self.started:
            await broker.startup()
            self.started = True
        await TASKS[job].kiq(*args)

    async def push_many(self, job, rows):
        await self.push(job, *rows[0])
        for start in range(1, len(rows), 50):
            await asyncio.gather(*(self.push(job, *row) for row in rows[start : start + 50]))


if __name__ == "__main__":
    producer = Producer()
    harness.serve(producer.push, producer.push_many)
