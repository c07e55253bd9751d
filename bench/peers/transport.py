"""The ceiling: moves payloads to an in-progress list and removes them, a hundred at a time, and runs nothing.

One Python process with one connection. `transport.py scripts` has one script that fetches a batch and one that removes
it; `transport.py commands` sends the single commands, a hundred in a pipeline. Each payload is removed by its bytes, as
every safe removal is; nothing is parsed, handed over or counted.
"""

import sys

import harness
import redis

BATCH = 100
FETCH = """
local taken = {}
for i = 1, tonumber(ARGV[1]) do
  local raw = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
  if not raw then break end
  taken[i] = raw
end
return taken
"""
REMOVE = "for i = 1, #ARGV do redis.call('LREM', KEYS[1], -1, ARGV[i]) end"
QUEUE, IN_PROGRESS = "queue:default", "queue:default:transport:inprogress"


class Commands:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def fetch(self) -> list[bytes]:
        with self._client.pipeline(transaction=False) as pipe:
            for _ in range(BATCH):
                pipe.rpoplpush(QUEUE, IN_PROGRESS)
            return [raw for raw in pipe.execute() if raw is not None]

    def remove(self, raws: list[bytes]) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for raw in raws:
                pipe.lrem(IN_PROGRESS, -1, raw)
            pipe.execute()


class Scripts:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._fetch, self._remove = client.script_load(FETCH), client.script_load(REMOVE)

    def fetch(self) -> list[bytes]:
        raws: list[bytes] = self._client.evalsha(self._fetch, 2, QUEUE, IN_PROGRESS, BATCH)
        return raws

    def remove(self, raws: list[bytes]) -> None:
        self._client.evalsha(self._remove, 1, IN_PROGRESS, *raws)


def work(way: str) -> None:
    client = redis.Redis.from_url(harness.URL)
    mover = Commands(client) if way == "commands" else Scripts(client)
    while True:
        taken = mover.fetch()
        if taken:
            mover.remove(taken)
        else:
            client.blmove(QUEUE, QUEUE, 0, "RIGHT", "RIGHT")


if __name__ == "__main__":
    work(sys.argv[1])
