"""Kills, pauses, cut-offs and farewells of the leader, by chance, while jobs run. A judge reads every write.

    python tests/support/standby_chaos.py ROUNDS LEASE_S [SEED]

Prints how long each kind of takeover took, by the server's clock. Exit code 1 when two epochs wrote at once, a takeover
took too long, or a job did not run.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import servers
from daemon import Daemon, pyworkers
from proxy import Proxy
from servers import RedisServer
from standby_scene import Scene
from waiting import eventually

MEMBERS = 3
KINDS = ("kill", "kill", "pause", "cut", "farewell", "step down")
HANDOVER_S = 0.5  # after a farewell


class Chaos:
    def __init__(self, server: RedisServer, folder: Path, lease_s: float, seed: int) -> None:
        self.random = random.Random(seed)
        self.scene = Scene(folder, server, lease_s)
        self.proxies: dict[int, Proxy] = {}
        self.took: dict[str, list[float]] = defaultdict(list)
        self.faults: list[str] = []
        self.pushed = 0
        for _ in range(MEMBERS):
            self.join()

    def join(self) -> None:
        proxy = Proxy(self.scene.server.port)
        daemon = self.scene.start(url=proxy.url)
        self.proxies[daemon.process.pid] = proxy

    def leave(self, daemon: Daemon) -> None:
        self.scene.daemons.remove(daemon)
        self.proxies.pop(daemon.process.pid).close()

    def push(self, count: int) -> None:
        for _ in range(count):
            self.pushed += 1
            self.scene.push(f"job {self.pushed}", self.random.choice([0.0, 0.02, 0.3]), 1)

    def round(self) -> None:
        epoch, leader, kind = self.scene.epoch, self.scene.leader, self.random.choice(KINDS)
        self.push(10)
        time.sleep(self.random.uniform(0, self.scene.lease_s))
        farewells = len(self.scene.judge.farewells)
        began = time.time()
        getattr(self, kind.replace(" ", "_"))(leader)
        if not eventually(lambda: self.scene.judge.wins[-1].epoch > epoch, 30 + 2 * self.scene.lease_s):
            self.faults.append(f"nobody took over after a {kind} in epoch {epoch}")
            return
        won = next(win for win in self.scene.judge.wins if win.epoch > epoch)
        if kind in ("farewell", "step down"):
            said = self.scene.judge.farewells[farewells:]
            self.note(kind, won.at - said[0] if said else 99.0, HANDOVER_S, epoch)
        else:
            self.note(kind, won.at - began, self.scene.lease_s + 1, epoch)
        self.mend(kind, leader)

    def note(self, kind: str, took: float, most: float, epoch: int) -> None:
        self.took[kind].append(took)
        faults = len(self.faults) + len(self.scene.judge.faults)
        print(f"epoch {epoch:4}: {kind:10} {took:.3f} s  faults: {faults}", flush=True)
        if took > most:
            self.faults.append(f"takeover after a {kind} in epoch {epoch} took {took:.2f} s")

    def kill(self, leader: Daemon) -> None:
        leader.kill()

    def pause(self, leader: Daemon) -> None:
        leader.signal(signal.SIGSTOP)

    def cut(self, leader: Daemon) -> None:
        self.proxies[leader.process.pid].swallow()

    def farewell(self, leader: Daemon) -> None:
        leader.signal(signal.SIGTERM)

    def step_down(self, leader: Daemon) -> None:
        pyworkers("leader", "step-down", "--redis", self.scene.server.url)

    def mend(self, kind: str, leader: Daemon) -> None:
        if kind == "pause":
            time.sleep(self.random.uniform(0, 1))
            leader.signal(signal.SIGCONT)
            leader.says("leader no more")
        elif kind == "cut":
            time.sleep(self.random.uniform(0, 1))
            self.proxies[leader.process.pid].pass_through()
        elif kind in ("kill", "farewell"):
            leader.process.wait(30)
            self.leave(leader)
            self.join()

    def end(self) -> None:
        left = {f"job {number}" for number in range(1, self.pushed + 1)}
        left |= {f"{name}-0" for name in left}

        def missing() -> set[str]:
            ran = {line.decode().rsplit(" ", 1)[0] for line in self.scene.redis.lrange("ledger", 0, -1)}
            return left - ran

        if not eventually(lambda: not missing(), 90):
            self.faults.append(f"jobs that did not run: {sorted(missing())[:20]}")
        self.faults += self.scene.judge.faults
        epochs = [win.epoch for win in self.scene.judge.wins]
        if epochs != sorted(set(epochs)):
            self.faults.append(f"epochs do not grow: {epochs}")


def main(rounds: int, lease_s: float, seed: int) -> int:
    servers.allowed = True
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer()
        chaos = Chaos(server, Path(folder), lease_s, seed)
        try:
            eventually(lambda: chaos.scene.judge.wins)
            for _ in range(rounds):
                chaos.round()
            chaos.end()
        finally:
            if chaos.faults:
                Path(tempfile.gettempdir(), f"standby-chaos-{seed}.log").write_text(chaos.scene.log)
            chaos.scene.close()
            for proxy in chaos.proxies.values():
                proxy.close()
            server.close()
    judge = chaos.scene.judge
    for kind, took in sorted(chaos.took.items()):
        took.sort()
        print(f"{kind:10} {len(took):4}  median {took[len(took) // 2]:.3f} s  longest {took[-1]:.3f} s")
    print(f"{len(judge.wins)} terms, {sum(judge.writes.values())} writes of leaders, {chaos.pushed} jobs pushed")
    print("\n".join(chaos.faults) or "no fault", flush=True)
    return 1 if chaos.faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int((sys.argv[3:] or ["1"])[0])))
