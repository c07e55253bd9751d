"""Those who break a Redis Cluster and the daemons on it, see `cluster`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis
from cluster import Cluster, Node
from daemon import Daemon
from hasty import hasty
from waiting import eventually

from chaos.doubles import NOTES
from chaos.monkeys import Chronicle, Monkey
from chaos.nodes import SHORT

JOBS = f"""{NOTES}
@workers.job("Work", queue="q")
def work(number, seconds):
    with noted(number) as attempt:
        time.sleep(seconds)
        if number % 10 == 0 and attempt == 0:
            raise workers.RetryJob("once", delay=1)
"""
NAMESPACES = ("red", "green", "blue")
DAEMONS = 3
DAEMON_KILLED, DAEMON_PAUSED = "daemon killed", "daemon paused for longer than its lease"
MASTER_DIED, MASTER_PAUSED, WRITES_LOST = (
    "master killed, and its replica took over", "master paused, and its replica took over",
    "master killed, and its replica had not got the last writes",
)  # fmt: skip
BOUNCED, FAILED_OVER, MOVED, MOVED_SLOWLY, PAUSED_SHORTLY = (
    "master killed, and back at once", "failover by hand", "slot moved", "slot moved slowly", "daemon paused"
)  # fmt: skip
DOUBLING = (WRITES_LOST, DAEMON_KILLED, DAEMON_PAUSED, MASTER_DIED, MASTER_PAUSED)
REFUSED = "failover by hand that the others refused"
HOLDING = (
    BOUNCED, MASTER_DIED, MASTER_PAUSED, WRITES_LOST, FAILED_OVER, REFUSED, MOVED, MOVED_SLOWLY, DAEMON_PAUSED,
    PAUSED_SHORTLY,
)  # fmt: skip


class ClusterMonkey(Monkey):
    tricks = {  # noqa: RUF012
        "kill_master": 2, "lose_writes": 2, "pause_master": 2, "bounce_master": 2, "kill_replica": 1, "fail_over": 3,
        "move": 6, "move_slowly": 4, "cut": 4,
    }  # fmt: skip

    def __init__(self, cluster: Cluster, seed: int, chronicle: Chronicle) -> None:
        super().__init__("cluster", seed, chronicle, (0.5, 3.0))
        self.cluster = cluster

    @property
    def _namespace(self) -> str:
        return self.random.choice(NAMESPACES)

    def kill_master(self) -> None:
        master = self.cluster.master_of(self._namespace)
        with self.chronicle.note(MASTER_DIED):
            self.cluster.kill(master)
        self.last()
        master.start()
        self.cluster.await_whole()

    def lose_writes(self) -> None:
        """A kill alone loses next to nothing: what the master has sent comes to its replica even so."""
        master = self.cluster.master_of(self._namespace)
        replica = self.cluster.replica_of(master)
        with self.chronicle.note(WRITES_LOST):
            replica.redis.config_set("masterauth", "wrong")  # so it cannot come back to its master
            master.redis.client_kill_filter(_type="replica")
            self.last(1.0)
            master.kill()
            replica.redis.config_set("masterauth", "")
            assert eventually(lambda: replica.is_master, 60), replica.log
        self.last()
        master.start()
        self.cluster.await_whole()

    def pause_master(self) -> None:
        """For so long that its replica takes over. It may still obey the commands that came meanwhile."""
        master = self.cluster.master_of(self._namespace)
        replica = self.cluster.replica_of(master)
        with self.chronicle.note(MASTER_PAUSED):
            master.pause()
            assert eventually(lambda: replica.is_master, 60), replica.log
            self.last()
            master.resume()
            self.cluster.await_whole()

    def bounce_master(self) -> None:
        """Killed, and back before the others elect its replica, mostly. It comes back with all that it had."""
        master = self.cluster.master_of(self._namespace)
        with self.chronicle.note(BOUNCED) as window:
            master.kill()
            master.start()
            self.cluster.await_whole()
            if not master.is_master:
                window.kind = MASTER_DIED

    def kill_replica(self) -> None:
        with self._broken("replica killed", self.cluster.replica_of(self.cluster.master_of(self._namespace))):
            self.last()

    def fail_over(self) -> None:
        """The others may refuse to vote soon after other elections. The master holds up its clients until then."""
        with self.chronicle.note(FAILED_OVER) as window:
            try:
                self.cluster.fail_over(self.cluster.master_of(self._namespace))
            except AssertionError:
                window.kind = REFUSED
                self.cluster.await_whole()

    def move(self) -> None:
        namespace = self._namespace
        with self.chronicle.note(MOVED):
            self.cluster.move(namespace, self.cluster.other_than(namespace))

    def move_slowly(self) -> None:
        """Some keys are at one node and some at the other one for a while."""
        namespace = self._namespace
        with (
            self.chronicle.note(MOVED_SLOWLY),
            self.cluster.moving(namespace, self.cluster.other_than(namespace)) as move,
        ):
            keys = [key.decode() for key in move.source.cluster("GETKEYSINSLOT", move.slot, 1_000)]
            with suppress(redis.ResponseError):  # those that have just gone are no failure: NOKEY
                move.keys(*self.random.sample(keys, len(keys) // 2))
            self.last(1.0)

    def cut(self) -> None:
        with self.chronicle.note("connections cut"):
            self.cluster.master_of(self._namespace).redis.client_kill_filter(_type="normal", skipme=True)

    @contextmanager
    def _broken(self, kind: str, node: Node) -> Iterator[None]:
        with self.chronicle.note(kind):
            node.kill()
            yield
            node.start()
            self.cluster.await_whole()


class DaemonMonkey(Monkey):
    tricks = {"kill": 4, "pause": 3, "pause_for_long": 1, "restart": 2}  # noqa: RUF012

    def __init__(self, folder: Path, cluster: Cluster, seed: int, chronicle: Chronicle) -> None:
        super().__init__("daemons", seed, chronicle, (1.0, 6.0))
        self._folder, self._url = folder, cluster.url(NAMESPACES[0])
        partitions = [f"[partition:{name}]\nbroker = {cluster.url(name)}\nqueues = q 5\n" for name in NAMESPACES[1:]]
        (folder / "conf.ini").write_text("\n".join(["[queue:q]\nconcurrency = 5\n", *partitions]))
        self.daemons = [self._start(number) for number in range(DAEMONS)]

    def _start(self, number: int) -> Daemon:
        return Daemon(
            self._folder, self._url, JOBS, "--config", "conf.ini", "--log-level", "warning", "--timeout", "5",
            prefix=hasty(SHORT, f"machine{number}"),
        )  # fmt: skip

    def kill(self) -> None:
        number = self.random.randrange(DAEMONS)
        with self.chronicle.note(DAEMON_KILLED, str(self.daemons[number].process.pid)):
            self.daemons[number].kill()
        self.daemons[number] = self._start(number)

    def pause(self) -> None:
        with self._paused(PAUSED_SHORTLY):
            self.last()

    def pause_for_long(self) -> None:
        with self._paused(DAEMON_PAUSED):
            self.outlast_the_lease()

    def restart(self) -> None:
        number = self.random.randrange(DAEMONS)
        with self.chronicle.note("daemon stopped", str(self.daemons[number].process.pid)):
            self.daemons[number].stop()  # with 1 in an outage: it could not deregister
        self.daemons[number] = self._start(number)

    @contextmanager
    def _paused(self, kind: str) -> Iterator[None]:
        daemon = self.random.choice(self.daemons)
        with self.chronicle.note(kind, str(daemon.process.pid)):
            daemon.signal(signal.SIGSTOP)
            yield
            daemon.signal(signal.SIGCONT)

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.kill()
