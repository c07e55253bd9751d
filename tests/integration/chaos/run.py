"""One run of chaos, from the first process to the account."""

from __future__ import annotations

import itertools
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis as redis_py
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from chaos import EFFECTS, JID, STATED, bounded_jobs, shape_judge
from chaos.bound_judge import BoundJudge
from chaos.bounder import Bounder
from chaos.judge import Judge, find_killed_by_jobs
from chaos.ledger import POISON, Account, Left, account
from chaos.left_keys import held_by_the_dead, what_is_left_behind
from chaos.monkeys import Chronicle, Monkey, NetworkMonkey, ProcessMonkey, ServerMonkey, Standstills
from chaos.nodes import Life, Node
from chaos.notes import Run, read_deaths, read_given_back, read_pushes, read_runs, read_stated_runs
from chaos.outage import BEFORE_S, Outage
from chaos.producer import Producer
from chaos.programs import BlockProgram
from chaos.shape_judge import ShapeJudge, read_shaped_runs
from chaos.shaped_jobs import CLASSES as SHAPED_CLASSES
from chaos.shaper import Shaper
from chaos.state_judge import CONVICTING, StateJudge
from chaos.states import CancelAsker, Pusher, look_at_all
from chaos.supervised import ParentMonkey, Supervised

Pushing = Producer | Pusher | CancelAsker | Shaper | Bounder

CLASSES = SHAPED_CLASSES | bounded_jobs.CLASSES  # whose dead jobs are judged here; the ledger judges the others

# Two share a machine, and so see each other's end at once; of the others the lease must tell.
MACHINES = ("a", "a", "b", "c")
PARENTS = ("a", "b", "c")  # the children of a parent share its machine
# Lists of jobs that wait for something else than a worker.
SETS = "pyworkers:group-set:"
WAITING = ("pyworkers:group:*:members", f"{SETS}*", "pyworkers:line:*", bounded_jobs.PLAIN_LIST)
STALLED_S = 180.0  # a drain on a slow machine may take longer, as long as the jobs become fewer
EMPTY_LOOKS = 5
# A time limit may strike while Python makes the event loop of an asynchronous job. Python tells of it in this way.
HALF_AN_EVENT_LOOP = "Exception ignored in: <function BaseEventLoop.__del__"
FREED_S = 60.0  # what dead processes held is free by then


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    jobs_per_s: float = 70.0
    pause_s: tuple[float, float] = (2.0, 15.0)  # of each monkey, between two tricks
    # Jobs come for so long after the last trick. A job that a process has mislaid goes back when that process ends: it
    # is found only if the process lives on.
    calm_s: float = 10.0
    parents: bool = False  # each node is a parent with children, see `supervised`
    outage_s: float = 0.0  # see `outage`
    block_programs: int = 0  # see `block_program`


def run(plan: Plan, directory: Path, say: Callable[[str], None] = lambda text: None) -> Account:
    """Everything that it wrote stays in `directory`."""
    wall_minus_monotonic = time.time() - time.monotonic()
    chronicle = Chronicle()
    with ExitStack() as stack:
        standstills = Standstills(chronicle)
        standstills.start()
        stack.callback(standstills.stop)
        server = RedisServer(auto_aof_rewrite_percentage="0")
        stack.callback(server.close)
        machines, kind, monkey = (
            (PARENTS, Supervised, ParentMonkey) if plan.parents else (MACHINES, Node, ProcessMonkey)
        )
        nodes = [kind(number, machine, server.port, directory, plan.seed) for number, machine in enumerate(machines)]
        programs = [
            BlockProgram(number, machines[number], server.port, directory, plan.seed)
            for number in range(plan.block_programs)
        ]
        for node in (*nodes, *programs):
            stack.callback(node.close)
            node.start()
        way = stack.enter_context(Proxy(server.port))
        dice = random.Random(f"{plan.seed}:steady")
        outage_at = time.monotonic() + plan.seconds * dice.uniform(0.15, 0.22)
        # A killer would kill those that nothing but the outage is to happen to.
        killers_after = outage_at + plan.outage_s + BEFORE_S if plan.outage_s else 0.0
        producer = Producer(way.url, plan.seed, plan.jobs_per_s, directory, killers_after)
        pusher = Pusher(way.url, plan.seed, plan.jobs_per_s / 5)
        asker = CancelAsker(way.url, plan.seed, pusher.to_cancel, pusher.pushed)
        shaper = Shaper(way.url, plan.seed, plan.jobs_per_s / 5)
        bounder = Bounder(way.url, plan.seed, plan.jobs_per_s / 5)
        pushing = [producer, pusher, asker, shaper, bounder]
        killing = {node.name: monkey(node, plan.seed, chronicle, plan.pause_s) for node in nodes}
        killing |= {node.name: ProcessMonkey(node, plan.seed, chronicle, plan.pause_s) for node in programs}
        cutting = {
            node.name: NetworkMonkey(node.name, node.proxy, plan.seed, chronicle, plan.pause_s)
            for node in (*nodes, *programs)
        }
        of_all = [
            NetworkMonkey("producer", way, plan.seed, chronicle, plan.pause_s),
            ServerMonkey(server, plan.seed, chronicle, plan.pause_s),
        ]
        monkeys: list[Monkey] = [*killing.values(), *cutting.values(), *of_all]
        outages = []
        if plan.outage_s:
            steady = [node.name for node in (*dice.sample(nodes, 2), *dice.sample(programs, 1))]
            outages.append(
                Outage(
                    outage_at,
                    plan.outage_s,
                    plan.seed,
                    server,
                    [way, *(node.proxy for node in (*nodes, *programs))],
                    [*of_all, *(cutting[name] for name in cutting if name not in steady)],
                    [monkeys_of[name] for name in steady for monkeys_of in (killing, cutting)],
                    chronicle,
                    directory / "outage",
                    bounder.expect_outage,
                )
            )
        with _at_work(pushing, [*outages, *monkeys], plan.calm_s):
            _wait(plan.seconds, say)
        client = server.client()
        complaints = _drain(nodes, programs, client, say)
        left = what_is_left(client)
        keys, left_behind = what_is_left_behind(client)
        shapes_left = shape_judge.what_is_left(client, shaper.pushed)
        raws = {_jid(raw): json.loads(raw) for raw in client.zrange("dead", 0, -1)}
        shaped_dead = {jid: job for jid, job in raws.items() if job.get("class") in CLASSES}
        states = look_at_all(server.url, pusher.pushed)
    lives = [life for node in (*nodes, *programs) for life in node.lives]
    runs = read_runs(directory)
    stated_runs = read_stated_runs(directory)
    shaped_runs = read_shaped_runs(directory)
    deaths = read_deaths(directory, wall_minus_monotonic)
    numbers = {run.life for run in [*runs, *stated_runs, *shaped_runs]} | deaths.keys()
    workers = [life for node in (*nodes, *programs) for life in node.workers(numbers)]
    find_killed_by_jobs(workers, [*runs, *stated_runs, *shaped_runs])
    judge = Judge([*lives, *workers], chronicle.windows, deaths)
    result = account(read_pushes(directory), runs, left, judge)
    result.states = StateJudge(judge, [*runs, *stated_runs], wall_minus_monotonic).verdict(pusher.pushed, states)
    buried = {jid: (job["class"], job["args"]) for jid, job in shaped_dead.items()}
    result.shapes = ShapeJudge(judge, shaped_runs, buried).verdict(shaper.pushed, shapes_left)
    result.bounds = BoundJudge(judge, shaped_runs, buried, read_given_back(directory)).verdict(bounder.pushed)
    result.keys = keys
    result.processes = Counter(life.pools for life in lives)
    result.complaints += [*complaints, *left_behind]
    result.complaints += _wrongly_dead(shaped_dead, judge, [*runs, *stated_runs, *shaped_runs])
    result.complaints += [
        f"{life} ended by itself, see its log"
        for life in lives
        if life.how == "died" and not judge.refused_at_its_start(life, runs)
    ]
    result.complaints += [f"{life} had to be killed, see its log" for life in lives if life.how == "did not stop"]
    result.complaints += [f"{party.name}: {party.error!r}" for party in (*pushing, *outages, *monkeys) if party.error]
    result.complaints += [text for node in nodes for text in node.complaints({life.number: life for life in workers})]
    result.complaints += faults(directory)
    _keep(directory, plan, lives, chronicle)
    say("\n".join(f"{kind:<42} {count:>10,}" for kind, count in chronicle.count().most_common()) + "\n")
    return result


@contextmanager
def _at_work(producers: Sequence[Pushing], monkeys: Sequence[Monkey | Outage], calm_s: float) -> Iterator[None]:
    """Monkeys mend what they broke before they end, and the producers end last."""
    for party in (*producers, *monkeys):
        party.start()
    try:
        yield
    finally:
        for monkey in monkeys:
            monkey.stopping.set()
        for monkey in monkeys:
            monkey.join()
        producers[0].stopping.wait(calm_s)
        for producer in producers:
            producer.stopping.set()
        for producer in producers:
            producer.join()


def _wait(seconds: float, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(left, 60))
        say(f"{time.monotonic() - began:.0f} s")


def _drain(
    nodes: list[Node], programs: list[BlockProgram], client: redis_py.Redis, say: Callable[[str], None]
) -> list[str]:
    """Undisturbed, until nothing waits and nothing runs. The programs end within their blocks, without a farewell."""
    say("draining")
    fewest, since, empty = math.inf, time.monotonic(), 0
    # A job that moves from one list to another between the looks at the two is in none: not so several times.
    while (empty := 0 if (lists := what_is_left(client).lists) else empty + 1) < EMPTY_LOOKS:
        left = sum(map(len, lists.values()))
        if lists and all(key.startswith(SETS) for key in lists):
            retry_aggregations(client)
        if left < fewest:
            fewest, since = left, time.monotonic()
        elif time.monotonic() - since > STALLED_S:
            return [f"not drained: {left} jobs are left, and for {STALLED_S:.0f} s they did not become fewer"]
        for node in nodes:
            node.revive()  # there are still killers
        time.sleep(0.1)
    for program in programs:
        program.kill()
    eventually(lambda: not held_by_the_dead(client), FREED_S)  # what is left then is told by `what_is_left_behind`
    eventually(lambda: _all_beat(nodes, client), FREED_S)  # a process that starts is killed by TERM for a moment
    for node in nodes:
        node.stop()
    return [f"{node.lives[-1]}: its last end is not clean" for node in nodes if node.exit_code != 0]


def _all_beat(nodes: Sequence[Node], client: redis_py.Redis) -> bool:
    beating = {int(identity.split(b":")[1]) for identity in client.hkeys("pyworkers:owners")}
    return all(beating.issuperset(node.working()) for node in nodes)


def retry_aggregations(client: redis_py.Redis) -> None:
    """A job that aggregates a set may have been convicted, because monkeys killed four processes while it ran. Its
    members are safe with it, until people retry it."""
    for raw in client.zrange("dead", 0, -1):
        told = json.loads(raw).get("pyworkers")
        if isinstance(told, dict) and "set" in told.get("group", {}) and client.zrem("dead", raw):
            client.lpush(f"queue:{told['group']['queue']}", raw)


def what_is_left(client: redis_py.Redis) -> Left:
    lists: dict[str, list[bytes]] = {}
    for key in client.scan_iter("queue:*", 1_000):
        lists[key.decode()] = client.lrange(key, 0, -1)
    for key in (key for pattern in WAITING for key in client.scan_iter(pattern, 1_000)):
        lists[key.decode()] = [raw.rpartition(b"\n")[2] for raw in client.lrange(key, 0, -1)]
    for key in ("schedule", "retry"):
        lists[key] = client.zrange(key, 0, -1)
    dead = {_jid(raw): json.loads(raw) for raw in client.zrange("dead", 0, -1)}
    dead = {jid: job for jid, job in dead.items() if not jid.startswith(STATED)}  # `states` judges those
    dead = {jid: job for jid, job in dead.items() if job.get("class") not in CLASSES}  # `shape_judge` judges those
    poison = {jid: CONVICTING.search(job["error_message"]) for jid, job in dead.items()}
    return Left(
        {key: [_jid(raw) for raw in raws] for key, raws in lists.items() if raws},
        {jid: job.get("error_class", "") for jid, job in dead.items()},
        {jid: int(named[1]) for jid, named in poison.items() if named},
        {name.decode(): int(count) for name, count in client.hgetall(EFFECTS).items()},
    )


def _jid(raw: bytes) -> str:
    """Also of a payload that is odd, or enclosed in another one."""
    found = JID.search(raw)
    return found[0].decode() if found else str(json.loads(raw)["jid"])


def _wrongly_dead(dead: Mapping[str, Mapping[str, Any]], judge: Judge, runs: Sequence[Run]) -> Iterator[str]:
    """None of these jobs fails for good. A monkey may have made one look like poison."""
    for jid, job in dead.items():
        convicting = CONVICTING.search(job.get("error_message", ""))
        if job.get("error_class") != POISON or convicting is None:
            yield f"{jid} is dead of {job.get('error_class')}: {job.get('error_message')}"
        elif judge.why_convicted(jid, int(convicting[1]), runs) is None:
            yield f"{jid} was taken for poison by the end of process {convicting[1]}"


def faults(directory: Path) -> list[str]:
    """Threads that failed, and other things that no disturbance excuses."""
    return [
        f"{path.name}: {line}"
        for path in sorted(directory.glob("log-*"))
        for before, line in itertools.pairwise(["", *path.read_text("utf-8", "replace").splitlines()])
        if " CRITICAL: " in line or (line.startswith("Traceback") and not before.startswith(HALF_AN_EVENT_LOOP))
    ]


def _keep(directory: Path, plan: Plan, lives: list[Life], chronicle: Chronicle) -> None:
    items = sorted([*chronicle.windows, *lives], key=lambda item: item.began)
    (directory / "chronicle").write_text("\n".join(map(str, [plan, *items])))
