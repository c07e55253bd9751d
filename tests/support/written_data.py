"""Makes the data of tests/brokers/redis/written_by: a directory as an embedded server of pyworkers 0.4.0 left it.

python tests/support/written_data.py /usr/bin/redis-server tests/brokers/redis/written_by/redis-7.0.tar.gz
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import redis
from waiting import eventually

QUEUE, SETS = "queue:mail", ("schedule", "retry", "dead")
RUN_AT = 4102444800.0  # in 2100


def payload(jid: str) -> str:
    return f'{{"class":"Mail::Send","args":["ü",1.50],"jid":"{jid}","queue":"mail","created_at":1790000000}}'


def written(client: redis.Redis) -> dict[str, list[tuple[bytes, float]] | list[bytes]]:
    """Everything in the database, by key."""
    assert set(client.keys()) == {key.encode() for key in (QUEUE, *SETS)}
    return {QUEUE: client.lrange(QUEUE, 0, -1)} | {key: client.zrange(key, 0, -1, withscores=True) for key in SETS}


def expected() -> dict[str, list[tuple[bytes, float]] | list[bytes]]:
    """In the form of written(). Jobs called "first" are in the snapshot, others in the commands that follow it."""
    jids = ("first", "second")
    queue = [payload(f"{jid}-{QUEUE}").encode() for jid in reversed(jids)]
    return {QUEUE: queue} | {key: [(payload(f"{jid}-{key}").encode(), RUN_AT) for jid in jids] for key in SETS}


def write(program: str, directory: Path) -> None:
    socket = str(directory / "redis.sock")
    options = {"port": "0", "unixsocket": socket, "appendonly": "yes", "appendfsync": "everysec", "save": ""}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    server = subprocess.Popen([program, *words], cwd=directory, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(unix_socket_path=socket) as client:
            assert eventually(Path(socket).exists)
            _push(client, "first")
            client.bgrewriteaof()
            assert eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
            _push(client, "second")
            assert written(client) == expected()
    finally:
        server.terminate()
        server.wait()


def _push(client: redis.Redis, jid: str) -> None:
    client.lpush(QUEUE, payload(f"{jid}-{QUEUE}"))
    for key in SETS:
        client.zadd(key, {payload(f"{jid}-{key}"): RUN_AT})


def _member(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    return None if member.name.endswith(".sock") else member


def main(program: str, archive: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        write(program, Path(directory))
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(directory, ".", filter=_member)


if __name__ == "__main__":
    main(*sys.argv[1:])
