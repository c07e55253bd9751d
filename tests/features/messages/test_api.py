"""Messages that resolve themselves."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, working
from generated_messages import generated_message
from servers import RedisServer
from waiting import eventually

from goworkers_py import ArgumentError, ArgumentsDoNotFit, ConfigError, TypedMessage, UnreadableBody, current_message
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.features.messages import receiver as receiver_module

resolved: list[Any] = []


@pytest.fixture(autouse=True)
def forget_resolved() -> None:
    resolved.clear()


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("mail", concurrency=2)) as app:
        yield app


def mail_of(app: App, **options: Any) -> Any:
    class Mail(TypedMessage, channel="mail", app=app, **options):
        to: str
        on: datetime.date = datetime.date(2026, 1, 31)
        lines: list[int] = dataclasses.field(default_factory=list)

        def resolve(self) -> None:
            resolved.append((self, self.channel))

    return Mail


class Upside:
    """A codec of one's own: text that nobody else writes."""

    def encode(self, value: Any) -> bytes:
        return json.dumps(value)[::-1].encode()

    def decode(self, body: bytes) -> Any:
        return json.loads(body.decode()[::-1])


@pytest.mark.parametrize("codec", ["json", "msgpack", Upside()])
def test_a_message_is_sent_and_resolves_itself_and_knows_its_channel(app: App, codec: Any) -> None:
    kind = mail_of(app, codec=codec)
    mail = kind("Ada", datetime.date(2027, 2, 28), [1, 2])
    assert kind.unmarshal(mail.marshal()) == mail
    jid = app.send(mail)
    assert isinstance(jid, str)
    with working(app):
        assert eventually(lambda: resolved == [(mail, "mail")])


def test_the_own_hints_of_the_base_class_are_no_fields(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """One of them is there for type checkers only."""
    kind = mail_of(app)
    app.send(kind("Ada"))
    assert "cannot be resolved" not in caplog.text


def test_a_message_of_protobuf_is_sent_as_the_generated_class_writes_it(app: App) -> None:
    generated = generated_message("TypedMail", {"to": "string", "copies": "int32", "later": "string"})

    class Mail(TypedMessage, channel="mail", app=app, codec="protobuf", message=generated):
        to: str
        copies: int = 1

        def resolve(self) -> None:
            resolved.append(self)

    mail = Mail("Ada", copies=3)
    assert generated.FromString(mail.marshal()) == generated(to="Ada", copies=3)
    assert Mail.unmarshal(generated(to="Bob", later="a field of a later release").SerializeToString()) == Mail("Bob", 0)
    app.send(mail)
    with working(app):
        assert eventually(lambda: resolved == [mail])


def test_ruby_and_go_see_a_job_with_the_fields_as_its_argument(app: App, redis: redis_py.Redis) -> None:
    app.send(mail_of(app, name="Billing::Mail", retry=3)("Ada", lines=[1]))
    [job] = map(json.loads, queue(redis, "mail"))
    assert (job["class"], job["queue"], job["retry"]) == ("Billing::Mail", "mail", 3)
    assert job["args"] == [{"to": "Ada", "on": "2026-01-31", "lines": [1]}]


def test_a_binary_body_is_base64_in_the_job(app: App, redis: redis_py.Redis) -> None:
    mail = mail_of(app, codec="msgpack")("Ada")
    app.send(mail)
    [[arg]] = fields(queue(redis, "mail"), "args")
    assert base64.b64decode(arg) == mail.marshal()


def test_a_job_that_ruby_pushes_is_resolved_as_a_message(app: App, redis: redis_py.Redis) -> None:
    kind = mail_of(app)
    redis.lpush("queue:mail", b'{"class":"Mail","args":[{"to":"Ada"}],"jid":"j","queue":"mail","retry":true}')
    with working(app):
        assert eventually(lambda: resolved == [(kind("Ada"), "mail")])


def test_a_new_kind_of_message_needs_no_change_of_its_channel(app: App) -> None:
    class Letter(TypedMessage, channel="mail", app=app):
        to: str

        def resolve(self) -> None:
            resolved.append(("letter", self.to))

    app.send(Letter("Ada"))
    app.send(mail_of(app)("Bob"))
    with app.receive(Letter, consumers=1):
        assert eventually(lambda: len(resolved) == 2)
    assert resolved[0] == ("letter", "Ada")
    assert (resolved[1][0].to, resolved[1][1]) == ("Bob", "mail")


def test_a_delayed_message_waits_in_the_schedule(app: App, redis: redis_py.Redis) -> None:
    kind = mail_of(app)
    app.send(kind("in"), delay=datetime.timedelta(hours=1))
    app.send(kind("at"), at=4_102_444_800)
    waiting = dict(redis.zrange("schedule", 0, -1, withscores=True))
    due = {json.loads(raw)["args"][0]["to"]: at for raw, at in waiting.items()}
    assert due["at"] == 4_102_444_800
    assert abs(due["in"] - time.time() - 3_600) < 60
    with pytest.raises(ArgumentError, match="delay or at, not both"):
        app.send(kind("both"), delay=1, at=4_102_444_800)


def test_the_options_of_the_class_and_of_a_send_are_those_of_a_job(app: App, redis: redis_py.Redis) -> None:
    kind = mail_of(app, retry=2, tags=["a"])
    app.send(kind("Ada"), retry=7, queue="other")
    [job] = map(json.loads, queue(redis, "other"))
    assert (job["retry"], job["tags"]) == (7, ["a"])


def test_a_message_that_fails_is_retried_with_backoff_and_holds_up_nobody(app: App, redis: redis_py.Redis) -> None:
    class Failing(TypedMessage, channel="mail", app=app):
        number: int

        def resolve(self) -> None:
            resolved.append(self.number)
            if self.number == 1:
                raise ValueError("one")

    for number in range(4):
        app.send(Failing(number))
    with working(app):
        assert eventually(lambda: sorted(resolved) == [0, 1, 2, 3] and not in_progress(redis))
        [(raw, due)] = redis.zrange("retry", 0, -1, withscores=True)
        assert due > time.time() + 5  # the original tried it again at once, for ever
        assert json.loads(raw)["args"] == [{"number": 1}]
        assert not eventually(lambda: len(resolved) > 4, within_s=0.3)


@pytest.mark.parametrize(
    ("codec", "arg"),
    [
        ("msgpack", "no base64!"),
        ("msgpack", "!gaJ0b6NBZGE="),  # without the first character it is one of Ada
        ("msgpack", "wQ=="),
        ("msgpack", 7),
        ("json", [1]),
        ("json", {"_v": "x"}),
    ],
)
def test_a_message_that_cannot_be_read_goes_to_dead_at_once_with_every_byte_and_the_next_one_runs(
    app: App, redis: redis_py.Redis, codec: str, arg: Any
) -> None:
    kind = mail_of(app, codec=codec)
    app.enqueue("mail", "Mail", [arg])
    app.send(kind("next"))
    with working(app):
        assert eventually(lambda: len(resolved) == 1 and not in_progress(redis))
        [dead] = map(json.loads, redis.zrange("dead", 0, -1))
    assert dead["args"] == [arg]
    assert dead["error_class"] == "goworkers_py.UnreadableBody"
    assert not redis.exists("retry")


def test_fields_that_do_not_fit_wait_for_the_end_of_a_deploy(app: App, redis: redis_py.Redis) -> None:
    kind = mail_of(app)
    app.enqueue("mail", "Mail", [{"on": "2026-01-31"}])
    with working(app):
        assert eventually(lambda: redis.zcard("retry") == 1)
    [job] = map(json.loads, redis.zrange("retry", 0, -1))
    assert job["error_class"] == "goworkers_py.ArgumentsDoNotFit"
    assert job["error_message"] == "Mail: .to: is missing"
    with pytest.raises(ArgumentsDoNotFit):
        kind.unmarshal(b'{"to": "Ada", "on": "no date"}')


def versioned(app: App) -> Any:
    class Mail(TypedMessage, channel="mail", app=app, version=3):
        recipients: list[str]

        def resolve(self) -> None:
            resolved.append(self.recipients)

        @classmethod
        def upgrade(cls, version: int, fields: dict[str, Any]) -> dict[str, Any] | None:
            if version == 1:
                return {"recipients": [fields["to"]]}
            fields["recipients"] = fields.pop("to").split(",")
            return None

    return Mail


def test_messages_of_older_versions_are_upgraded(app: App, redis: redis_py.Redis) -> None:
    kind = versioned(app)
    app.enqueue("mail", "Mail", [{"to": "first"}])
    app.enqueue("mail", "Mail", [{"to": "a,b", "_v": 2}])
    app.send(kind(["c"]))
    assert fields(queue(redis, "mail"), "args")[-1] == [{"recipients": ["c"], "_v": 3}]
    with working(app):
        assert eventually(lambda: sorted(resolved) == [["a", "b"], ["c"], ["first"]])
    with pytest.raises(ArgumentsDoNotFit, match="version 4, and this program knows versions up to 3"):
        kind.unmarshal(b'{"recipients": [], "_v": 4}')


def test_a_coroutine_resolves_a_message(app: App) -> None:
    class Mail(TypedMessage, channel="mail", app=app):
        to: str

        async def resolve(self) -> None:
            message = current_message()
            assert message is not None
            resolved.append((self.to, message.job_class))

    app.send(Mail("Ada"))
    with working(app):
        assert eventually(lambda: resolved == [("Ada", "Mail")])


def test_what_is_no_message_is_refused_at_the_send(app: App) -> None:
    with pytest.raises(ArgumentError, match=r"str is no message: write class str\(workers\.TypedMessage"):
        app.send("Ada")  # type: ignore[arg-type]
    kind = mail_of(app)
    with pytest.raises(ArgumentError, match=r"Mail: \.on"):
        app.send(kind("Ada", "no date"))


def test_a_class_that_cannot_work_is_refused_where_it_is_written(app: App) -> None:
    with pytest.raises(ConfigError, match=r"write a method `def resolve\(self\)`"):

        class Nothing(TypedMessage, channel="mail", app=app):
            to: str

    with pytest.raises(ConfigError, match="leave out queue="):
        mail_of(app, queue="other")
    with pytest.raises(ConfigError, match="no codec 'jason'; choose json"):
        mail_of(app, codec="jason")
    with pytest.raises(ConfigError, match="version must be 1, 2"):
        mail_of(app, version=0)
    with pytest.raises(ConfigError, match="a class that protoc has generated"):
        mail_of(app, codec="protobuf")
    with pytest.raises(ConfigError, match="the Protobuf message has no field on; it has to"):
        mail_of(app, codec="protobuf", message=generated_message("Short", {"to": "string", "lines": "repeated int32"}))
    with pytest.raises(ConfigError, match="resolve must not yield"):

        class Yielding(TypedMessage, channel="mail", app=app):
            def resolve(self) -> Any:
                yield 1

    with pytest.raises(ConfigError, match="give the field marshal another name"):

        class Taken(TypedMessage, channel="mail", app=app):
            marshal: str = ""  # type: ignore[assignment]

            def resolve(self) -> None: ...

    mail_of(app)
    with pytest.raises(ConfigError, match="two jobs are called 'Mail'"):
        versioned(app)


# --- receivers


def test_a_receiver_resolves_messages_in_any_program_and_all_consumers_work_at_once(
    app: App, redis: redis_py.Redis
) -> None:
    gate = threading.Barrier(3)

    class Meet(TypedMessage, channel="mail", app=app):
        number: int

        def resolve(self) -> None:
            gate.wait(20)
            resolved.append(self.number)

    for number in range(3):
        app.send(Meet(number))
    with app.receive(Meet, consumers=3):
        assert eventually(lambda: sorted(resolved) == [0, 1, 2] and not in_progress(redis))


def test_a_stop_waits_for_what_runs_and_no_consumer_begins_another_message(app: App, redis: redis_py.Redis) -> None:
    gate = threading.Semaphore(0)

    class Slow(TypedMessage, channel="mail", app=app):
        number: int

        def resolve(self) -> None:
            resolved.append(self.number)
            assert gate.acquire(timeout=20)

    for number in range(10):
        app.send(Slow(number))
    receiver = app.receive(Slow, consumers=3)
    assert eventually(lambda: receiver.running == 3)
    told: list[bool] = []
    ending = threading.Thread(target=lambda: told.append(receiver.stop()))
    ending.start()
    assert eventually(lambda: receiver._launcher.state.quiet)
    gate.release()  # the first consumer ends, while the others still run: it must not take another one
    assert eventually(lambda: receiver.running == 2)
    assert not eventually(lambda: len(resolved) > 3, within_s=0.3)
    gate.release()
    gate.release()
    ending.join(20)
    assert told == [True]
    assert receiver.stop() is True
    assert sorted(resolved) == [0, 1, 2]
    assert redis.llen("queue:mail") == 7
    assert not in_progress(redis)


def test_a_stop_without_a_timeout_waits_longer_than_a_daemon_would(redis_url: str, redis: redis_py.Redis) -> None:
    gate = threading.Event()
    with own_app(redis_url, timeout=0) as app:

        class Slow(TypedMessage, channel="mail", app=app):
            def resolve(self) -> None:
                resolved.append(gate.wait(20))

        app.send(Slow())
        receiver = app.receive(Slow, consumers=1)
        assert eventually(lambda: receiver.running == 1)
        letting = threading.Timer(0.5, gate.set)
        letting.start()
        assert receiver.stop() is True
        letting.join()
    assert resolved == [True]
    assert not redis.exists("queue:mail")


def test_a_stop_with_a_timeout_gives_back_what_does_not_end(app: App, redis: redis_py.Redis) -> None:
    gate = threading.Event()

    class Endless(TypedMessage, channel="mail", app=app):
        def resolve(self) -> None:
            resolved.append(1)
            gate.wait(20)

    app.send(Endless())
    receiver = app.receive(Endless, consumers=1)
    assert eventually(lambda: resolved == [1])
    receiver.stop(0.1)
    assert redis.llen("queue:mail") == 1
    gate.set()
    assert eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("worker:mail")])


def test_fewer_consumers_than_before_strand_nothing_and_two_receivers_share_a_channel(
    app: App, redis: redis_py.Redis
) -> None:
    class Count(TypedMessage, channel="mail", app=app):
        number: int

        def resolve(self) -> None:
            resolved.append(self.number)
            time.sleep(0.01)

    for number in range(60):
        app.send(Count(number))
    with app.receive(Count, consumers=4), app.receive(Count, consumers=2):
        assert eventually(lambda: len(resolved) > 5)
    with app.receive(Count, consumers=1):
        assert eventually(lambda: len(resolved) >= 60 and not in_progress(redis))
    assert sorted(resolved) == list(range(60))


def test_receivers_of_a_program_with_a_process_name_have_names_of_their_own(redis_url: str) -> None:
    """One name is one identity, and its lease that of one process."""
    with own_app(redis_url, process="shop") as app:
        kind = mail_of(app)
        with app.receive(kind, consumers=1), app.receive(kind, consumers=1):
            assert eventually(lambda: len(app.inspector.processes()) == 2), "each shows itself soon after its start"
            app.send(kind("Ada"))
            assert eventually(lambda: resolved == [(kind("Ada"), "mail")])


def test_a_receiver_without_a_consumer_is_refused(app: App) -> None:
    with pytest.raises(ArgumentError, match="consumers must be at least 1, is 0"):
        app.receive(mail_of(app), consumers=0)


def test_a_receiver_of_a_queue_in_serial_mode_has_one_consumer() -> None:
    with own_app("memory://serial-receiver", QueueConfig("mail", mode="serial", concurrency=1)) as app:
        kind = mail_of(app)
        with pytest.raises(ArgumentError, match=r"queue mail has mode = serial.*write consumers=1"):
            app.receive(kind)
        app.send(kind(to="a"))
        with app.receive(kind, consumers=1):
            assert eventually(lambda: len(resolved) == 1)


def test_a_receiver_works_on_the_memory_of_the_process() -> None:
    with own_app("memory://") as app:
        kind = mail_of(app)
        app.send(kind("Ada"))
        with app.receive(kind, consumers=1):
            assert eventually(lambda: resolved == [(kind("Ada"), "mail")])


# --- receivers whose server is away


@pytest.fixture
def away(own_redis: RedisServer) -> Iterator[App]:
    """An App whose server does not run yet."""
    own_redis.stop()
    with own_app(own_redis.url, QueueConfig("mail")) as app:
        yield app


def threads_of_receivers() -> list[str]:
    return [one.name for one in threading.enumerate() if "mail" in one.name or one.name == "heartbeat"]


def test_a_receiver_waits_for_a_server_that_is_started_late(
    away: App, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    kind = mail_of(away)
    began = time.monotonic()
    receiver = away.receive(kind, consumers=2)
    assert time.monotonic() - began < 10
    assert (receiver.ready, receiver.running, receiver.wait_until_ready(0.05)) == (False, 0, False)
    assert eventually(lambda: caplog.records)  # the outage is known a moment before it is logged
    waits = [one for one in caplog.messages if "cannot serve" in one and "trying again until it does" in one]
    assert (len(waits), [one for one in caplog.records if one.levelname == "ERROR"]) == (1, caplog.records[-1:])
    own_redis.start()
    assert receiver.wait_until_ready(20) is True
    away.send(kind("Ada"))
    assert eventually(lambda: resolved == [(kind("Ada"), "mail")])
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1
    assert receiver.ready
    assert receiver.stop() is True
    assert not receiver.ready
    assert threads_of_receivers() == []


def test_a_receiver_whose_server_never_comes_stops_at_once(away: App) -> None:
    kind = mail_of(away)
    for timeout in (None, 0.5):
        receiver = away.receive(kind, consumers=2)
        began = time.monotonic()
        assert receiver.stop(timeout) is True
        assert receiver.stop() is True
        assert time.monotonic() - began < 10
        assert (receiver.ready, receiver.wait_until_ready()) == (False, False)
    with away.receive(kind):
        pass
    assert threads_of_receivers() == []


def test_a_stop_in_another_thread_ends_the_wait_for_a_server(away: App) -> None:
    receiver = away.receive(mail_of(away))
    threading.Timer(0.2, receiver.stop).start()
    assert receiver.wait_until_ready() is False


def test_receivers_that_are_stopped_while_their_server_comes_leave_nothing_behind(
    away: App, own_redis: RedisServer
) -> None:
    kind = mail_of(away)
    receivers = [away.receive(kind, consumers=1) for _ in range(5)]
    starting = threading.Thread(target=own_redis.start)
    starting.start()
    for receiver in receivers:
        receiver.stop()
        time.sleep(0.02)
    starting.join()
    assert threads_of_receivers() == []
    assert away.inspector.processes() == []


def test_a_receiver_tells_at_once_that_its_start_fails_and_leaves_no_thread(app: App, redis: redis_py.Redis) -> None:
    def fail() -> None:
        raise RuntimeError("no disk")

    app.before_start(fail)
    with pytest.raises(RuntimeError, match="no disk"):
        app.receive(mail_of(app))
    assert threads_of_receivers() == []
    assert app.inspector.processes() == []


def test_a_receiver_whose_start_fails_when_the_server_is_back_says_so(
    away: App, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("no disk")

    away.before_start(fail)
    receiver = away.receive(mail_of(away))
    own_redis.start()
    with pytest.raises(RuntimeError, match="no disk"):
        receiver.wait_until_ready(20)
    assert "receiver:mail cannot start; it receives no messages" in caplog.messages
    assert not receiver.ready
    assert receiver.stop() is True
    assert threads_of_receivers() == []


def test_a_receiver_tries_again_when_a_server_that_comes_late_refuses_it(
    away: App, own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "AGAIN_S", 0.1)
    (tmp_path / "users.acl").write_text("user default on nopass ~* &* +@connection +info +acl\n")
    own_redis._options["aclfile"] = str(tmp_path / "users.acl")
    with away.receive(mail_of(away)) as receiver:
        own_redis.start()
        assert eventually(lambda: any("cannot start, next try in 0 s: " in one for one in caplog.messages))
        assert not receiver.ready
        own_redis.client().execute_command("ACL", "SETUSER", "default", "+@all")
        assert receiver.wait_until_ready(20) is True
    assert threads_of_receivers() == []


def test_an_unreadable_body_is_one(app: App) -> None:
    with pytest.raises(UnreadableBody, match="JsonCodec cannot decode the body"):
        mail_of(app).unmarshal(b"{")
