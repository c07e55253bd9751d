"""Bodies that programs publish to RabbitMQ by a bare client, and a real daemon that runs them."""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import redis as redis_py
from daemon import Daemon
from rabbit import RabbitNode, errors
from waiting import eventually

pytestmark = pytest.mark.server


PAGE = Path(__file__).parents[3] / "docs/rabbitmq-bodies.md"
JOBS = """
    import json, pathlib, time
    import goworkers_py as workers

    def note(*told):
        with pathlib.Path("done").open("a") as done:
            done.write(json.dumps(told, default=repr) + "\\n")

    def run(value):
        note("ran", value)

    def tell(value, delay=0.5):
        told = workers.current_message().properties
        failed = workers.current_message().retry_count is not None
        note("told", value, failed, told.headers, told.message_id, told.correlation_id, told.reply_to, told.type,
             told.content_type, told.routing_key, told.exchange, told.timestamp, told.priority)
        if not failed:
            raise workers.RetryJob("once", delay=delay)

    def tell_late(value):
        tell(value, delay=12)

    def fail(value):
        note("failed", value)
        raise workers.KillJob("it is wrong")

    def slow(value):
        time.sleep(0.02)
        note("ran", value)
"""
HANDLERS = {"run", "tell", "tell_late", "fail", "slow"}
Start = Callable[..., Daemon]
Channel = Any


@pytest.fixture
def channel(rabbit_url: str) -> Iterator[Channel]:
    """A bare client, which waits until RabbitMQ has each message."""
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@pytest.fixture
def start(tmp_path: Path, rabbit_url: str) -> Iterator[Start]:
    daemons: list[Daemon] = []

    def begin(
        handler: str = "run", *lines: str, main: str = "", threads: str = "concurrency = 3", wait: bool = True
    ) -> Daemon:
        section = "\n".join(["[queue:orders]", "format = plain", f"handler = jobs:{handler}", threads, *lines])
        (tmp_path / "conf.ini").write_text(f"[pyworkers]\nbroker = {rabbit_url}\n{main}\n{section}\n")
        daemons.append(Daemon(tmp_path, rabbit_url, JOBS, "-c", "conf.ini"))
        return daemons[-1].ready() if wait else daemons[-1]

    yield begin
    for one in daemons:
        one.kill()
        one.process.wait()


def publish(channel: Channel, body: bytes, queue: str = "orders", exchange: str = "", **properties: Any) -> None:
    def published() -> bool:
        try:
            channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties), mandatory=True)
        except (pika.exceptions.UnroutableError, pika.exceptions.NackError):
            return False  # the daemon has just started: the queue is not declared yet, or has no leader
        return True

    assert eventually(published)


def noted(folder: Path, word: str = "ran") -> list[Any]:
    path = folder / "done"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [told[1] if len(told) == 2 else told[1:] for told in lines if told[0] == word]


def left(channel: Channel, queue: str) -> int:
    """A quorum queue may count a message for a moment that was acknowledged already."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def are_dead(channel: Channel) -> int:
    """How many jobs are in the dead queue, which is declared for the first of them."""
    try:
        with channel.connection.channel() as own:  # a question for a queue that is not there closes its channel
            return left(own, "pyworkers.dead")
    except pika.exceptions.ChannelClosedByBroker:
        return 0


def dead(channel: Channel) -> list[dict[str, Any]]:
    """The dead jobs, which stay there."""
    found = []
    while (got := channel.basic_get("pyworkers.dead"))[0] is not None:
        found.append(json.loads(got[2]))
    if found:
        channel.basic_nack(0, multiple=True, requeue=True)
    return found


def body_of(job: dict[str, Any]) -> bytes:
    [text] = job["args"]
    return text.encode() if job["plain"]["as"] == "text" else base64.b64decode(text)


def test_a_body_is_read_by_its_content_type_where_no_codec_is_named(
    start: Start, channel: Channel, tmp_path: Path
) -> None:
    daemon = start()
    publish(channel, b'{"id": 1}')
    publish(channel, b'{"id": 2}', content_type="application/json; charset=utf-8")
    publish(channel, b'{"id": 3}', content_type="application/vnd.shop.order+json", content_encoding="utf-8")
    publish(channel, "grüße".encode("latin-1"), content_type="text/plain; charset=iso-8859-1")
    publish(channel, b"\x81\xa2id\x05", content_type="application/msgpack")
    publish(channel, b"\x00\xff", content_type="application/octet-stream")
    publish(channel, gzip.compress(b'{"id": 7}'), content_type="application/json", content_encoding="gzip")
    wanted = [{"id": 1}, {"id": 2}, {"id": 3}, "grüße", {"id": 5}, repr(b"\x00\xff"), {"id": 7}]
    assert eventually(lambda: len(noted(tmp_path)) == len(wanted)), daemon.output
    assert sorted(map(repr, noted(tmp_path))) == sorted(map(repr, wanted))
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "orders") == 0), "all are acknowledged"
    assert not errors(daemon.output), daemon.output


def test_a_codec_that_is_named_reads_all_bodies(start: Start, channel: Channel, tmp_path: Path) -> None:
    daemon = start("run", "codec = bytes")
    publish(channel, b'{"id": 1}', content_type="application/json")
    publish(channel, gzip.compress(b"two"), content_type="application/x-protobuf", content_encoding="gzip")
    assert eventually(lambda: sorted(noted(tmp_path)) == [repr(b"two"), repr(b'{"id": 1}')]), daemon.output


def test_a_handler_sees_the_properties_and_a_retry_sees_them_too(
    start: Start, channel: Channel, tmp_path: Path
) -> None:
    channel.exchange_declare("shop", "topic")
    channel.queue_declare("orders", durable=True)
    daemon = start("tell")
    channel.queue_bind("orders", "shop", "order.*")
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    publish(
        channel, b"[1]", "order.new", "shop", headers={"tenant": "a", "raw": b"\xff", "at": at, "deep": [{"n": 1}]},
        message_id="m1", correlation_id="c1", reply_to="answers", type="OrderPlaced", content_type="application/json",
        timestamp=1767312000, priority=3,
    )  # fmt: skip
    headers = {"tenant": "a", "raw": repr(b"\xff"), "at": repr(at), "deep": [{"n": 1}]}
    told = [headers, "m1", "c1", "answers", "OrderPlaced", "application/json", "order.new", "shop", 1767312000, 3]
    assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
    assert noted(tmp_path, "told") == [[[1], False, *told], [[1], True, *told]]
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "orders") == left(channel, "pyworkers.jobs.orders") == 0)


def test_a_retry_never_comes_into_the_queue_of_the_other_programs(
    start: Start, channel: Channel, rabbit_server: RabbitNode, tmp_path: Path
) -> None:
    daemon = start("tell_late")
    publish(channel, b"1")
    assert eventually(lambda: len(noted(tmp_path, "told")) == 1), daemon.output
    assert daemon.stop() == 0  # before the retry is due
    assert eventually(lambda: left(channel, "pyworkers.jobs.orders") == 1, 40)
    assert eventually(lambda: left(channel, "orders") == 0)
    daemon = start("tell")
    assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
    assert [failed for _, failed, *_ in noted(tmp_path, "told")] == [False, True]


def test_a_body_that_dies_keeps_every_byte_and_its_properties(start: Start, channel: Channel) -> None:
    daemon = start("fail", "codec = bytes")
    publish(channel, b"\x00\xff", headers={"tenant": "a"}, content_type="image/png")
    daemon.says("it is wrong")
    assert daemon.stop() == 0
    [job] = dead(channel)
    assert (job["class"], job["queue"], body_of(job)) == ("pyworkers.PlainMessage", "orders", b"\x00\xff")
    assert job["error_message"] == "it is wrong"
    assert job["plain"]["properties"]["headers"] == {"tenant": "a"}
    assert job["plain"]["properties"]["content_type"] == "image/png"


@pytest.mark.parametrize(
    ("body", "properties", "told"),
    [
        (b"{broken", {}, "no content type, so it was read as JSON"),
        (b"\xff\x00", {"content_type": "text/plain"}, "TextCodec cannot decode the body"),
        (b"<a/>", {"content_type": "application/xml"}, "there is no codec for the content type application/xml"),
        (b"no gzip", {"content_encoding": "gzip"}, "content encoding gzip: Error -3"),
        (b"[1]", {"content_encoding": "br"}, "character set or content encoding br"),
    ],
)
def test_an_unreadable_body_goes_to_dead_at_once_with_every_byte_and_blocks_nobody(
    start: Start, channel: Channel, tmp_path: Path, body: bytes, properties: dict[str, str], told: str
) -> None:
    daemon = start()
    publish(channel, body, **properties)
    publish(channel, b"7")
    assert eventually(lambda: noted(tmp_path) == [7]), daemon.output
    # A stop does not wait for ever for the confirmation of the dead job: then its message would come again.
    assert eventually(lambda: are_dead(channel) == 1)
    assert daemon.stop() == 0
    [job] = dead(channel)
    assert body_of(job) == body
    assert told in job["error_message"]
    assert job["error_class"] == "goworkers_py.UnreadableBody"
    assert eventually(lambda: left(channel, "orders") == 0)


class StrangeHeaders(pika.BasicProperties):  # type: ignore[misc]
    """With a header that pika does not write, and other clients do."""

    def __init__(self, kind: bytes, value: bytes) -> None:
        super().__init__(headers={"tenant": "a", "strange": PLACEHOLDER}, message_id="m1")
        self._value = kind + value

    def encode(self) -> list[bytes]:
        return [piece.replace(struct.pack(">cq", b"l", PLACEHOLDER), self._value) for piece in super().encode()]


PLACEHOLDER = 2**40 + 1


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (b"T", struct.pack(">Q", 1767312000000), 1767312000000),  # milliseconds, as JavaScript has them
        (b"d", struct.pack(">d", 1.5), 1.5),
    ],
)
def test_a_header_at_which_pika_gives_up_is_read(
    start: Start, channel: Channel, tmp_path: Path, kind: bytes, value: bytes, read: object
) -> None:
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"[1]", StrangeHeaders(kind, value))
    daemon = start("tell")
    assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
    for _, _, headers, message_id, *_ in noted(tmp_path, "told"):
        assert (headers, message_id) == ({"tenant": "a", "strange": read}, "m1")
    assert daemon.stop() == 0
    assert "connection to RabbitMQ lost" not in daemon.output


def test_a_body_with_headers_that_cannot_be_read_goes_to_dead_and_blocks_nobody(
    start: Start, channel: Channel, tmp_path: Path
) -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    daemon = start()
    publish(channel, b"[1]", headers={"tenant": "a", "deep": deep})
    publish(channel, b"7")
    assert eventually(lambda: noted(tmp_path) == [7]), daemon.output
    daemon.says("the headers of the message cannot be read")
    assert daemon.stop() == 0
    [job] = dead(channel)
    assert body_of(job) == b"[1]"
    [raw] = job["plain"]["properties"]["headers"].values()
    assert b"tenant" in base64.b64decode(raw["$base64"])


def test_bodies_of_a_daemon_that_is_killed_run_in_another(start: Start, channel: Channel, tmp_path: Path) -> None:
    channel.queue_declare("orders", durable=True)
    for number in range(200):
        publish(channel, str(number).encode())
    killed = start("slow", wait=False)
    assert eventually(lambda: len(noted(tmp_path)) > 100), killed.output
    killed.kill()
    killed.process.wait()
    daemon = start("slow")
    assert eventually(lambda: {*noted(tmp_path)} == {*range(200)}), daemon.output
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "orders") == 0)
    # The acknowledgements may lag behind a bit.
    assert len(noted(tmp_path)) < 250, "only those that ran at the kill run twice"


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"durable": True},
        {"durable": True, "arguments": {"x-max-priority": 5, "x-message-ttl": 600_000}},
        {"durable": True, "arguments": {"x-queue-type": "quorum", "x-max-length": 1000}},
    ],
)
def test_a_queue_that_another_program_has_declared_is_consumed_as_it_is(
    start: Start, channel: Channel, tmp_path: Path, declared: dict[str, Any]
) -> None:
    channel.queue_declare("orders", **declared)
    publish(channel, b"1")
    daemon = start()
    publish(channel, b"2")
    assert eventually(lambda: sorted(noted(tmp_path)) == [1, 2]), daemon.output
    channel.queue_declare("orders", **declared)  # the other program may declare it again
    assert daemon.stop() == 0
    assert "is not there" not in daemon.output
    assert "PRECONDITION" not in daemon.output


def test_a_queue_that_is_not_there_is_declared_and_the_log_says_so(start: Start, channel: Channel) -> None:
    daemon = start()
    line = daemon.says("queue orders of other programs is not there: declaring it as a durable quorum queue")
    assert "WARN" in line
    publish(channel, b"1")
    [told] = re.findall(r"with the arguments (\{.*?\});", line)
    assert '"x-queue-type":"quorum"' in told
    channel.queue_declare("orders", durable=True, arguments=json.loads(told))


def test_a_stream_is_refused(start: Start, channel: Channel, tmp_path: Path) -> None:
    channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
    daemon = start()
    for number in range(150):  # what was published before it consumes is not delivered
        publish(channel, str(number).encode())
        if "refuses" in daemon.output:
            break
        time.sleep(0.2)
    assert "queue orders is a stream" in daemon.says("RabbitMQ refuses")
    assert not noted(tmp_path)


def test_a_queue_that_is_deleted_is_declared_again(start: Start, channel: Channel, tmp_path: Path) -> None:
    channel.queue_declare("orders", durable=True)
    daemon = start("run", "mode = serial", threads="")
    publish(channel, b"1")
    assert eventually(lambda: noted(tmp_path) == [1]), daemon.output
    channel.queue_delete("orders")
    daemon.says("queue orders of other programs is not there")
    publish(channel, b"2")
    assert eventually(lambda: noted(tmp_path) == [1, 2]), daemon.output
    assert daemon.stop() == 0
    assert "@plain" not in daemon.output.replace("orders, orders@plain:orders in strict order", "")


def test_a_queue_of_another_name_and_a_namespace(start: Start, channel: Channel, tmp_path: Path) -> None:
    daemon = start("tell", "list = shop.orders", main="namespace = app")
    publish(channel, b"1", "shop.orders")
    assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "app:pyworkers.jobs.orders") == 0)


def test_bodies_run_in_a_partition_beside_redis(
    tmp_path: Path, redis_url: str, rabbit_url: str, channel: Channel
) -> None:
    (tmp_path / "conf.ini").write_text(
        f"[pyworkers]\nredis = {redis_url}\n[queue:default]\n[partition:shop]\nbroker = {rabbit_url}\n"
        "queues = mail 2\n[queue:orders]\npartition = shop\nformat = plain\nhandler = jobs:tell\n"
    )
    with Daemon(tmp_path, redis_url, JOBS, "-c", "conf.ini").ready() as daemon:
        publish(channel, b"1")
        assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
        assert daemon.stop() == 0


def test_the_example_of_the_page_works(tmp_path: Path, rabbit_url: str, channel: Channel) -> None:
    page = PAGE.read_text("utf-8")
    for name, text in re.findall(r"```\w+\n[#;] (\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(text.replace("amqp://localhost:5672/", rabbit_url))
    [typed] = re.findall(r"python3 -c '(.*)'", page)
    with Daemon(tmp_path, rabbit_url, "", "-c", "orders.ini").ready() as daemon:
        daemon.says("declaring it as a durable quorum queue")
        publish(channel, b'{"id": 0}', headers={"tenant": "the first one"})
        subprocess.run([sys.executable, "-c", typed], cwd=tmp_path, check=True, timeout=30)
        daemon.says("order 1 of acme")
        assert daemon.stop() == 0
        assert not errors(daemon.output), daemon.output


def test_a_typed_message_reads_and_publishes_bare_bodies(tmp_path: Path, rabbit_url: str, channel: Channel) -> None:
    (tmp_path / "conf.ini").write_text(f"[pyworkers]\nbroker = {rabbit_url}\n[queue:orders]\nformat = plain\n")
    jobs = """
        import goworkers_py as workers

        class Order(workers.TypedMessage, channel="orders"):
            number: int

            def resolve(self):
                told = workers.current_message().properties
                print("resolved", self.number, None if told is None else told.type, flush=True)
    """
    with Daemon(tmp_path, rabbit_url, jobs, "-c", "conf.ini").ready() as daemon:
        publish(channel, gzip.compress(b'{"number": 1}'), type="OrderPlaced", content_encoding="gzip")
        daemon.says("resolved 1 OrderPlaced")
        send = (
            "import goworkers_py as workers, jobs; workers.configure('conf.ini'); "
            "workers.send(jobs.Order(2)); workers.send(jobs.Order(3), delay=0.2); workers.quit()"
        )
        subprocess.run([sys.executable, "-c", send], cwd=tmp_path, check=True, timeout=30)
        daemon.says("resolved 2 None")
        daemon.says("resolved 3 None")
        assert daemon.stop() == 0
        assert eventually(lambda: left(channel, "orders") == left(channel, "pyworkers.jobs.orders") == 0)


# --- with a store beside it


def test_with_a_store_retries_and_dead_bodies_are_in_redis(
    start: Start, channel: Channel, redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    redis.lpush("orders", "of somebody else")
    daemon = start("tell", main=f"store = {redis_url}\npoll_interval = 0.2")
    publish(channel, b"[1]", headers={"tenant": "a"}, content_type="application/json")
    publish(channel, b"{broken")
    assert eventually(lambda: len(noted(tmp_path, "told")) == 2), daemon.output
    assert [(value, failed, told["tenant"]) for value, failed, told, *_ in noted(tmp_path, "told")] == [
        ([1], False, "a"), ([1], True, "a"),
    ]  # fmt: skip
    assert eventually(lambda: redis.zcard("dead") == 1)
    [job] = map(json.loads, redis.zrange("dead", 0, -1))
    assert body_of(job) == b"{broken"
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "orders") == 0)
    assert redis.lrange("orders", 0, -1) == [b"of somebody else"], "a list of Redis with the name of the queue"
    assert "demo@plain" not in str(redis.smembers("queues"))


def test_with_a_store_a_killed_daemon_loses_no_body(
    start: Start, channel: Channel, redis_url: str, tmp_path: Path
) -> None:
    channel.queue_declare("orders")
    for number in range(150):
        publish(channel, str(number).encode())
    store = f"store = {redis_url}"
    killed = start("slow", main=store, wait=False)
    assert eventually(lambda: len(noted(tmp_path)) > 20), killed.output
    killed.kill()
    killed.process.wait()
    daemon = start("slow", main=store)
    assert eventually(lambda: {*noted(tmp_path)} == {*range(150)}), daemon.output
    assert daemon.stop() == 0
    assert eventually(lambda: left(channel, "orders") == 0)
