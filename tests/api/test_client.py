"""The client: the payload on the wire, refused pushes, client links, threads and forks."""

from __future__ import annotations

import datetime
import gc
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import redis as redis_py
from forks import ended_well, in_child
from proxy import Proxy
from servers import RedisServer

from goworkers_py.api.client import Client
from goworkers_py.api.client_links import ClientLink
from goworkers_py.api.job_writer import MOST_KEPT
from goworkers_py.api.request import PushRequest
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Published, PublishResult, Push
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.moments import after, moment
from goworkers_py.config.options import Config
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, BrokerRefused, BrokerUnavailable
from goworkers_py.wire import needs, payload
from goworkers_py.wire.needs import field_of

NOW = 1_700_000_000.25


class StoppedClock(Clock):
    def __init__(self, at: float) -> None:
        super().__init__()
        self._at = at

    def wall(self) -> float:
        return self._at


@pytest.fixture
def broker(redis_url: str) -> Iterator[Broker]:
    with closing(open_broker(Config(broker=redis_url))) as broker:
        yield broker


@pytest.fixture
def make(broker: Broker) -> Callable[..., Client]:
    """Makes clients with a clock that does not move."""

    def make(
        *links: ClientLink,
        now: float = NOW,
        style: str = "seconds",
        on_later: Callable[[float], None] = lambda at: None,
    ) -> Client:
        return Client(lambda: broker, links, Config(timestamps=style), StoppedClock(now), on_later)

    return make


@pytest.fixture
def client(make: Callable[..., Client]) -> Client:
    return make()


def no_broker() -> Broker:
    raise AssertionError("nothing may be pushed")


def queued(redis: redis_py.Redis, queue: str = "q") -> list[dict[str, Any]]:
    """The jobs of the queue, oldest first."""
    return [json.loads(raw) for raw in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


# --- on the wire


def test_a_job_is_written_as_sidekiq_writes_it(client: Client, redis: redis_py.Redis) -> None:
    jid = client.push("mail", "Höflich::Job", [42, {"pdf": True, "to": ["a/b", None, 1.5]}])
    [raw] = redis.lrange("queue:mail", 0, -1)
    assert re.fullmatch("[0-9a-f]{24}", jid)
    assert raw.decode() == (
        '{"retry":true,"queue":"mail","class":"Höflich::Job","args":[42,{"pdf":true,"to":["a/b",null,1.5]}],'
        f'"jid":"{jid}","created_at":1700000000.25,"enqueued_at":1700000000.25}}'
    )
    assert redis.smembers("queues") == {b"mail"}
    assert set(redis.scan_iter()) == {b"queues", b"queue:mail"}


def test_a_scheduled_job_has_its_time_as_score_and_no_enqueued_at(client: Client, redis: redis_py.Redis) -> None:
    at = NOW + 0.1234567
    jid = client.push("mail", "Job", [], EnqueueOptions(at=at))
    [(raw, score)] = redis.zrange("schedule", 0, -1, withscores=True)
    assert score == at
    assert raw.decode() == f'{{"retry":true,"queue":"mail","class":"Job","args":[],"jid":"{jid}","created_at":{NOW}}}'
    assert list(redis.scan_iter()) == [b"schedule"]


@pytest.mark.parametrize("at", [NOW, NOW - 1, 0, datetime.datetime(1999, 1, 1, tzinfo=datetime.timezone.utc)])
def test_a_job_for_a_time_in_the_past_is_pushed_at_once(client: Client, redis: redis_py.Redis, at: Any) -> None:
    client.push("q", "Job", [], EnqueueOptions(at=at))
    [job] = queued(redis)
    assert job["enqueued_at"] == NOW
    assert not redis.exists("schedule")


@pytest.mark.parametrize(
    ("style", "now", "written"),
    [("seconds", 1_700_000_000, "1700000000.0"), ("ms", 1_700_000_000.2567, "1700000000256"), ("ms", 2, "2000")],
)
def test_a_readers_type_of_time_is_kept(
    make: Callable[..., Client], redis: redis_py.Redis, style: str, now: float, written: str
) -> None:
    make(now=now, style=style).push("q", "Job", [])
    [raw] = redis.lrange("queue:q", 0, -1)
    assert raw.decode().endswith(f'"created_at":{written},"enqueued_at":{written}}}')


def test_scores_are_seconds_where_timestamps_are_milliseconds(
    make: Callable[..., Client], redis: redis_py.Redis
) -> None:
    make(style="ms").push("q", "Job", [], EnqueueOptions(at=NOW + 60))
    assert redis.zrange("schedule", 0, -1, withscores=True)[0][1] == NOW + 60


def test_a_push_names_the_queue_and_pushes_the_job(client: Client, redis: redis_py.Redis) -> None:
    """One LPUSH is atomic, so it needs no transaction, which would take longer."""
    with redis.monitor() as monitor:
        client.push("mail", "Job", [])
        words = []
        while words[-1:] != [["LPUSH", "queue:mail"]]:
            words.append(monitor.next_command()["command"].split()[:2])
    assert words[-2:] == [["SADD", "queues"], ["LPUSH", "queue:mail"]]
    assert ["MULTI"] not in words


def test_every_job_has_its_own_jid(client: Client) -> None:
    assert len(set(client.push_bulk("q", "Job", [[]] * 1_500))) == 1_500


# --- in bulk


def test_a_bulk_of_2500_takes_three_round_trips_and_keeps_its_order(
    own_redis: RedisServer,
) -> None:
    with Proxy(own_redis.port) as proxy, closing(open_broker(Config(broker=proxy.url))) as broker:
        jids = Client(lambda: broker).push_bulk("q", "Job", ([n] for n in range(2_500)))
        assert (proxy.commands[b"SADD"], proxy.commands[b"LPUSH"]) == (3, 3)
    jobs = queued(own_redis.client())
    assert [job["args"] for job in jobs] == [[n] for n in range(2_500)]
    assert [job["jid"] for job in jobs] == jids


def test_all_jobs_of_a_scheduled_bulk_have_the_same_time(client: Client, redis: redis_py.Redis) -> None:
    jids = client.push_bulk("q", "Job", [[n] for n in range(1_200)], EnqueueOptions(at=NOW + 9))
    assert redis.zcount("schedule", NOW + 9, NOW + 9) == len(jids) == 1_200


def test_an_empty_bulk_asks_no_server() -> None:
    assert Client(no_broker).push_bulk("q", "Job", []) == []


def test_a_bulk_with_one_bad_row_pushes_none() -> None:
    rows = [[n] for n in range(1_500)] + [[{"when": datetime.date(2025, 1, 1)}]]
    with pytest.raises(ArgumentError, match=r"rows\[1500\]\[0\]\['when'\] is a date, .* pass \.isoformat\(\)"):
        Client(no_broker).push_bulk("q", "Job", rows)


def test_the_error_of_a_bulk_says_which_rows_were_pushed(own_redis: RedisServer) -> None:
    with closing(open_broker(Config(broker=own_redis.url))) as broker:
        publish, calls = broker.transport.publish, iter([True, False])

        def refuses_the_second(pushes: Sequence[Push]) -> Sequence[PublishResult]:
            if next(calls):
                return publish(pushes)
            error = BrokerRefused("full")
            error.places = frozenset({1, 3})
            raise error

        broker.transport.publish = refuses_the_second  # type: ignore[method-assign]
        with pytest.raises(BrokerRefused) as raised:
            Client(lambda: broker).push_bulk("q", "Job", [[n] for n in range(2_500)])
    pushed = [job["jid"] for job in queued(own_redis.client())]
    rows = raised.value.pushed
    assert (len(rows), rows[:1_000]) == (2_500, pushed)
    assert [at for at, jid in enumerate(rows[1_000:]) if jid] == [1, 3]


def test_a_lost_reply_is_an_error_and_the_rows_are_not_pushed_again(own_redis: RedisServer) -> None:
    with Proxy(own_redis.port) as proxy, closing(open_broker(Config(broker=proxy.url))) as broker:
        proxy.drop_reply_of(b"LPUSH")
        with pytest.raises(BrokerUnavailable):
            Client(lambda: broker).push_bulk("q", "Job", [[n] for n in range(2_500)])
    assert own_redis.client().llen("queue:q") == 1_000


# --- options


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (EnqueueOptions(), {"retry": True}),
        (EnqueueOptions(retry=False), {"retry": False}),
        (EnqueueOptions(retry=0), {"retry": 0}),
        (EnqueueOptions(retry=7, retry_count=2), {"retry": 7, "retry_count": 2}),
        (EnqueueOptions(retry_count=0), {"retry": True}),
        (EnqueueOptions(retry_count=-1), {"retry": True, "retry_count": -1}),
        (EnqueueOptions(retry_for=90.7), {"retry": True, "retry_for": 90}),
        (EnqueueOptions(retry_queue="slow"), {"retry": True, "retry_queue": "slow"}),
        (EnqueueOptions(dead=False), {"retry": True, "dead": False}),
        (EnqueueOptions(backtrace=True), {"retry": True, "backtrace": True}),
        (EnqueueOptions(backtrace=5), {"retry": True, "backtrace": 5}),
        (EnqueueOptions(timeout=1.5), {"retry": True, "timeout": 1.5}),
        (EnqueueOptions(deadline=NOW), {"retry": True, "deadline": NOW}),
        (
            EnqueueOptions(deadline=datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)),
            {"retry": True, "deadline": NOW},
        ),
        (EnqueueOptions(tags=("a", "b")), {"retry": True, "tags": ["a", "b"]}),
        (EnqueueOptions(extra={"bid": "b-1", "cattr": {"a": []}}), {"retry": True, "bid": "b-1", "cattr": {"a": []}}),
    ],
)
def test_options_are_fields_of_the_job(
    client: Client, redis: redis_py.Redis, options: EnqueueOptions, fields: dict[str, Any]
) -> None:
    client.push("q", "Job", [], options)
    [job] = queued(redis)
    for name in ("queue", "class", "args", "jid", "created_at", "enqueued_at"):
        del job[name]
    assert {name: (type(value), value) for name, value in job.items()} == {
        name: (type(value), value) for name, value in fields.items()
    }


def test_pushes_with_other_options_are_written_anew(client: Client, redis: redis_py.Redis) -> None:
    one, other = EnqueueOptions(retry=1), EnqueueOptions(retry=2, tags=["x"])
    for queue, job_class, options in [("q", "A", one), ("q", "A", other), ("q", "B", one), ("r", "A", one)] * 2:
        client.push(queue, job_class, [1], options)
    told = [json.loads(raw) for queue in ("q", "r") for raw in reversed(redis.lrange(f"queue:{queue}", 0, -1))]
    assert [(job["queue"], job["class"], job["retry"], job.get("tags")) for job in told] == [
        *[("q", "A", 1, None), ("q", "A", 2, ["x"]), ("q", "B", 1, None)] * 2,
        *[("r", "A", 1, None)] * 2,
    ]


def test_pushes_that_are_alike_share_a_writer(client: Client) -> None:
    asked = PushRequest("q", "A", [[]], EnqueueOptions(unique_for=60))
    assert client._writers.writer_of(asked, NOW) is client._writers.writer_of(asked, NOW)


def test_the_writers_of_options_go_with_them(client: Client, redis: redis_py.Redis) -> None:
    for number in range(20):
        client.push("q", "A", [1], EnqueueOptions(retry=number))
    assert redis.llen("queue:q") == 20
    gc.collect()
    assert len(client._writers._kept) == 0


def test_of_the_same_options_some_writers_are_kept(client: Client, redis: redis_py.Redis) -> None:
    options = EnqueueOptions(retry=1)
    for number in range(MOST_KEPT + 10):
        client.push(f"q{number}", "A", [1], options)
    assert len(client._writers._kept[options]) == 10


def test_a_change_of_an_extra_field_after_its_options_were_made_changes_no_push(
    make: Callable[..., Client], redis: redis_py.Redis
) -> None:
    meta = {"n": 1}
    options = EnqueueOptions(extra={"meta": meta})
    meta["n"] = 2
    make().push("q", "A", [1], options)
    make(lambda job: job).push("q", "A", [1], options)
    assert [json.loads(raw)["meta"] for raw in redis.lrange("queue:q", 0, -1)] == [{"n": 1}] * 2


def test_any_text_may_stand_beside_the_name_of_a_lock(client: Client, redis: redis_py.Redis) -> None:
    assert client.push("q", "A", [1], EnqueueOptions(unique_for=60, group="\0"))


def test_a_job_may_be_given_its_jid(client: Client, redis: redis_py.Redis) -> None:
    assert client.push("q", "Job", [], EnqueueOptions(jid="mine")) == "mine"
    assert queued(redis)[0]["jid"] == "mine"


def test_one_jid_for_several_jobs_is_refused() -> None:
    with pytest.raises(ArgumentError, match="one jid cannot name several jobs"):
        Client(no_broker).push_bulk("q", "Job", [[], []], EnqueueOptions(jid="mine"))


@pytest.mark.parametrize(
    ("option", "bad"),
    [
        *(("retry", bad) for bad in (-1, 1.0, "true", 10**10)),
        *(("retry_count", bad) for bad in ("1", 1.5, True)),
        *(("timeout", bad) for bad in (0, -1, "90", float("nan"), float("inf"), True)),
        *(("deadline", bad) for bad in ("90", float("nan"), float("inf"), True, datetime.timedelta(1))),
        *(("retry_for", bad) for bad in (-1, 2e9, "90", float("nan"), True)),
        *(("retry_queue", bad) for bad in (5, "\ud800")),
        *(("dead", bad) for bad in (0, "no")),
        *(("backtrace", bad) for bad in (-1, "all")),
        *(("tags", bad) for bad in ("a", [1], 5, {1}, ["\ud800"])),
        *(("jid", bad) for bad in ("", 5, "\ud800")),
        *(("extra", bad) for bad in (5, "x", [])),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(option: str, bad: Any) -> None:
    with pytest.raises(ArgumentError, match=f"^{option} must be "):
        Client(no_broker).push("q", "Job", [], EnqueueOptions(**{option: bad}))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"a": {"b": [0, object]}}, r"extra\['a'\]\['b'\]\[1\] is a type, not plain JSON"),
        ({5: 1}, "a key of type int"),
        ({"queue": "other"}, "queue is set by the push; leave it out"),
        ({"at": 5}, "at is set by the push; leave it out"),
        ({"retry": 5}, "retry is an option; give it as retry="),
    ],
)
def test_a_wrong_field_in_extra_is_refused(extra: dict[Any, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Client(no_broker).push("q", "Job", [], EnqueueOptions(extra=extra))


# --- arguments


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([1, {"a": [(2,)]}], r"args\[1\]\['a'\]\[0\] is a tuple, not plain JSON: pass a list"),
        ([float("nan")], r"args\[0\] is nan"),
        ([{"x": {1: 2}}], r"args\[0\]\['x'\]\[1\] is a key of type int; JSON keys are text"),
        (["\ud800"], r"args\[0\] holds half of a surrogate pair"),
        ([b"x"], r"args\[0\] is a bytes, .* base64"),
        ("abc", "args must be a list of arguments, is str"),
        ({"a": 1}, "args must be a list of arguments, is dict"),
        (None, "args must be a list of arguments, is NoneType"),
        (iter([1]), "args must be a list of arguments, is list_iterator"),
    ],
)
def test_an_argument_that_is_not_plain_json_is_refused_with_its_path(args: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Client(no_broker).push("q", "Job", args)


def test_a_refused_argument_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"args\[0\]"):
        Client(no_broker).push("q", "Job", [{1, 2}])


def test_arguments_may_come_as_a_tuple(client: Client, redis: redis_py.Redis) -> None:
    client.push("q", "Job", (1, [2]))
    assert queued(redis)[0]["args"] == [1, [2]]


@pytest.mark.parametrize("name", ["", None, 5, b"q", "\ud800"])
def test_queue_and_class_must_be_names(name: Any) -> None:
    for queue, job_class, which in ((name, "Job", "queue"), ("q", name, "class")):
        with pytest.raises(ArgumentError, match=f"^{which} (must be a name|holds half)"):
            Client(no_broker).push(queue, job_class, [])


# --- times


@pytest.mark.parametrize(
    ("at", "seconds"),
    [
        (5, 5.0),
        (1_700_000_000.5, 1_700_000_000.5),
        (datetime.datetime(2025, 2, 14, 8, 43, 10, 500_000, tzinfo=datetime.timezone.utc), 1_739_522_590.5),
        (
            datetime.datetime(2025, 2, 14, 8, 43, 10, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            1_739_515_390.0,
        ),
    ],
)
def test_a_moment_is_epoch_seconds_or_a_datetime(at: Any, seconds: float) -> None:
    assert moment(at) == seconds
    assert type(moment(at)) is float


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_datetime_without_a_time_zone_is_local_time() -> None:
    assert moment(datetime.datetime(2025, 2, 14, 8, 43, 10)) == 1_739_522_590 - 9 * 3_600  # noqa: DTZ001


def test_a_delay_is_seconds_or_a_timedelta() -> None:
    assert (after(60, NOW), after(0.5, NOW), after(-1, NOW)) == (NOW + 60, NOW + 0.5, NOW - 1)
    assert after(datetime.timedelta(minutes=1, milliseconds=5), NOW) == NOW + 60.005


@pytest.mark.parametrize("bad", ["5", None, True, float("nan"), float("inf"), 10**400, datetime.date(2025, 1, 1)])
def test_a_wrong_time_is_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="a time must be epoch seconds or a datetime"):
        moment(bad)
    with pytest.raises(ArgumentError, match="a delay must be seconds or a timedelta"):
        after(bad, NOW)


def test_a_time_in_milliseconds_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at must be epoch seconds"):
        Client(no_broker).push("q", "Job", [], EnqueueOptions(at=NOW * 1_000))


def test_on_later_is_called_with_the_time_of_a_scheduled_job(make: Callable[..., Client]) -> None:
    told: list[float] = []
    client = make(on_later=told.append)
    client.push("q", "Job", [])
    client.push("q", "Job", [], EnqueueOptions(at=NOW - 5))
    assert told == []
    client.push_bulk("q", "Job", [[1], [2]], EnqueueOptions(at=NOW + 5))
    assert told == [NOW + 5]


# --- client links


def test_links_see_the_job_one_after_the_other_and_may_change_it(
    make: Callable[..., Client], redis: redis_py.Redis
) -> None:
    def first(job: dict[str, Any]) -> dict[str, Any]:
        seen.append(job["args"])
        job["args"].append("first")
        job["queue"] = "other"
        return job

    def second(job: dict[str, Any]) -> dict[str, Any]:
        return {**job, "args": [*job["args"], "second"], "locale": "de"}

    seen: list[Any] = []
    jid = make(first, second).push("q", "Job", [1])
    [job] = queued(redis, "other")
    assert (job["args"], job["locale"], job["queue"], job["jid"]) == ([1, "first", "second"], "de", "other", jid)
    assert redis.smembers("queues") == {b"other"}


def test_a_link_that_changes_a_job_changes_neither_the_callers_objects_nor_the_next_job(
    make: Callable[..., Client], redis: redis_py.Redis
) -> None:
    def mark(job: dict[str, Any]) -> dict[str, Any]:
        job["args"][0]["marked"] = True
        job["tags"].append("marked")
        return job

    argument: dict[str, Any] = {}
    tags = ["mine"]
    make(mark).push_bulk("q", "Job", [[argument], [argument]], EnqueueOptions(tags=tags))
    assert [(job["args"], job["tags"]) for job in queued(redis)] == [([{"marked": True}], ["mine", "marked"])] * 2
    assert (argument, tags) == ({}, ["mine"])


def test_a_link_may_stop_a_push(make: Callable[..., Client], redis: redis_py.Redis) -> None:
    def odd_only(job: dict[str, Any]) -> dict[str, Any] | None:
        return job if job["args"][0] % 2 else None

    client = make(odd_only)
    jids = client.push_bulk("q", "Job", [[n] for n in range(5)])
    assert [jid is not None for jid in jids] == [False, True, False, True, False]
    assert [job["jid"] for job in queued(redis)] == [jids[1], jids[3]]
    assert client.push("q", "Job", [2]) is None


def test_a_push_that_was_stopped_asks_no_server_and_no_further_link() -> None:
    def never(job: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("not reached")

    assert Client(no_broker, [lambda job: None, never]).push("q", "Job", [1]) is None


def test_arguments_may_come_as_a_tuple_also_where_there_are_links(
    make: Callable[..., Client], redis: redis_py.Redis
) -> None:
    make(lambda job: job).push("q", "Job", (1, 2))
    assert queued(redis)[0]["args"] == [1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (True, "a client link must return the job or None, returned True"),
        ({"queue": None}, "a client link made the job's queue None"),
        ({"queue": ""}, "a client link made the job's queue ''"),
        ({"class": 5}, "a client link made the job's class 5"),
        ({"jid": 5}, "a client link made the job's jid 5"),
        ({"args": "x"}, "args must be a list of arguments, is str"),
        ({"args": [object]}, r"args\[0\] is a type, not plain JSON"),
        ({"locale": {1}}, r"job\['locale'\] is a set, not plain JSON"),
    ],
)
def test_the_job_that_a_link_returns_is_checked(changed: Any, message: str) -> None:
    def change(job: dict[str, Any]) -> Any:
        return {**job, **changed} if isinstance(changed, dict) else changed

    with pytest.raises(ArgumentError, match=message):
        Client(no_broker, [change]).push("q", "Job", [1])


def test_an_error_in_a_link_reaches_the_caller() -> None:
    def fail(job: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("tenant")

    with pytest.raises(KeyError, match="tenant"):
        Client(no_broker, [fail]).push("q", "Job", [1])


def test_a_link_added_later_applies_to_the_next_push(broker: Broker, redis: redis_py.Redis) -> None:
    links: list[ClientLink] = []
    client = Client(lambda: broker, links)
    assert client.push("q", "Job", [])
    links.append(lambda job: None)
    assert client.push("q", "Job", []) is None


# --- needs


def test_needs_are_in_the_payload_of_pushes_that_have_some_and_ask_for_the_workers(
    broker: Broker, client: Client, redis: redis_py.Redis
) -> None:
    broker.recoverable.beat(Presence("old:1:aaaaaaaaaaaa", {"q": 1}))
    with pytest.raises(ArgumentError, match=r"the job needs locks .*, and all live processes of queue q are older"):
        client.push_all(PushRequest("q", "J", [[]], needs=frozenset({"locks"})))
    assert redis.llen("queue:q") == 0
    client.push_all(PushRequest("other", "J", [[]], needs=frozenset({"locks", "expiry"})))
    [raw] = redis.lrange("queue:other", 0, -1)
    assert payload.read(raw)["pyworkers"] == {"v": 1, "needs": ["expiry", "locks"]}


def test_a_broker_without_a_list_of_workers_is_not_asked_for_it() -> None:
    class Mailbox(Broker):
        capabilities = ()

        def __init__(self) -> None:
            self.transport = self
            self.published: list[Push] = []

        def publish(self, pushes: Sequence[Push]) -> list[Published]:
            self.published += pushes
            return [Published.PUSHED] * len(pushes)

    broker = Mailbox()
    Client(lambda: broker).push_all(PushRequest("q", "J", [[]], needs=frozenset({"locks"})))
    assert payload.read(broker.published[0].payload)["pyworkers"] == field_of(["locks"])


def test_a_push_without_needs_asks_for_no_workers(client: Client, redis: redis_py.Redis) -> None:
    with redis.monitor() as monitor:
        client.push("q", "J", [])
        redis.ping()
        commands = []
        while not commands or commands[-1] != "PING":
            commands.append(monitor.next_command()["command"].partition(" ")[0])
    assert "HGETALL" not in commands
    [raw] = redis.lrange("queue:q", 0, -1)
    assert needs.FIELD not in payload.read(raw)


def test_a_user_may_not_set_the_field_of_needs() -> None:
    with pytest.raises(ArgumentError, match="pyworkers is reserved for pyworkers"):
        EnqueueOptions(extra={needs.FIELD: field_of(["locks"])})


# --- threads and forks


def test_twenty_threads_push_through_one_client(client: Client, redis: redis_py.Redis) -> None:
    def work(thread: int) -> list[str | None]:
        jids = [client.push("q", "Job", [thread, n]) for n in range(30)]
        return jids + client.push_bulk("bulk", "Job", [[thread, n] for n in range(50)])

    with ThreadPoolExecutor(20) as pool:
        jids = [jid for one in pool.map(work, range(20)) for jid in one]
    jobs = queued(redis) + queued(redis, "bulk")
    assert Counter(job["jid"] for job in jobs) == Counter(jids)
    assert Counter(tuple(job["args"]) for job in queued(redis)) == Counter(
        (thread, n) for thread in range(20) for n in range(30)
    )


def test_parent_and_children_push_through_the_client_they_share_after_a_fork(
    client: Client, redis: redis_py.Redis
) -> None:
    def work(who: str) -> None:
        for number in range(100):
            client.push("q", "Job", [who, number])

    client.push("q", "Job", ["before", 0])
    children = [in_child(lambda who=who: work(who)) for who in ("first", "second")]
    work("parent")
    assert [ended_well(child) for child in children] == [True, True]
    pushed = Counter(tuple(job["args"]) for job in queued(redis))
    expected = [("before", 0)] + [(who, n) for who in ("first", "second", "parent") for n in range(100)]
    assert pushed == Counter(expected)
