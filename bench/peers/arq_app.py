"""`arq arq_app.WorkerSettings`; as a program, the client."""

import asyncio
import os

import arq
import harness
from arq.connections import RedisSettings


async def noop(context, *args):
    pass


async def nap(context, milliseconds, *args):
    await asyncio.sleep(milliseconds / 1_000)


async def stamp(context, sent_ns):
    harness.stamp(sent_ns)


class WorkerSettings:
    functions = (noop, nap, stamp)
    redis_settings = RedisSettings.from_dsn(harness.URL)
    max_jobs = int(os.environ.get("BENCH_THREADS", "10"))


class Producer:
    pool = None

    async def push(self, job, *args):
        if self.pool is None:
            self.pool = await arq.create_pool(WorkerSettings.redis_settings)
        await self.pool.enqueue_job(job, *args)

    async def push_many(self, job, rows):
        await self.push(job, *rows[0])  # the first one connects
        for start in range(1, len(rows), 50):
            await asyncio.gather(*(self.push(job, *row) for row in rows[start : start + 50]))


if __name__ == "__main__":
    producer = Producer()
    harness.serve(producer.push, producer.push_many)
