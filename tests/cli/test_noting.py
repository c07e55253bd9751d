"""What commands change is in the audit list: every command is in a table here, as one that changes or one that does
not."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
import redis as redis_py
import web_scene
from calls import Call, one_line
from web_scene import Scene

from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.cli import noting
from goworkers_py.cli.pyworkers import main
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.features import FEATURES

# What each command that changes something is called with, and how many it changes.
CHANGES: dict[str, tuple[str, int]] = {
    "batches cancel": ("{bid} nosuch", 1),
    "batches close": ("{bid} --force", 1),
    "chains cancel": ("{cid}", 1),
    "config delete": ("--name billing --yes", 1),
    "config push": ("{file} --name shop", 1),
    "config rollback": ("--name billing", 1),
    "dead clear": ("--yes", 30),
    "dead delete": ("--all --yes", 30),
    "dead retry": ("--all", 30),
    "groups delete": ("Invoice user:7 --yes", 4),
    "groups flush": ("Invoice user:7", 1),
    "groups set": ("Invoice user:7 --grace 5m", 1),
    "job again": ("{tracked}", 1),
    "job cancel": ("{tracked} nosuch --wait 0", 1),
    "leader step-down": ("", 1),
    "limits forget": ("spare", 1),
    "limits set": ("stripe --concurrent 0", 1),
    "limits unset": ("spare", 1),
    "locks free": ("{lock}", 1),
    "mark": ("v2", 1),
    "outbox clear": ("--yes", 0),
    "outbox delete": ("--all", 0),
    "parked clear": ("--yes", 0),
    "parked delete": ("--all --yes", 0),
    "parked kill": ("--all --yes", 0),
    "parked retry": ("--all", 0),
    "periodic forget": ("heartbeat", 1),
    "periodic pause": ("nightly", 1),
    "periodic resume": ("heartbeat", 1),
    "periodic run": ("nightly", 1),
    "periodic set": ("nightly --cron '5 4 * * *'", 1),
    "processes call": ("flush {python} --arg s3cr3t --within 0.1", 0),
    "processes concurrency": ("3 {python} --within 0.1", 0),
    "processes dump": ("{ruby} --within 0.1", 1),
    "processes log-level": ("debug {python} --within 0.1", 0),
    "processes pause-queue": ("mail {python} --within 0.1", 0),
    "processes quiet": ("{ruby} --within 0.1", 1),
    "processes reload": ("{python} --within 0.1", 0),
    "processes resume": ("{python} --within 0.1", 0),
    "processes resume-queue": ("mail {python} --within 0.1", 0),
    "processes stop": ("{ruby} --within 0.1", 1),
    "queue clear": ("mail --yes", 12),
    "queue delete": ("mail --match Ada", 12),
    "queue move": ("mail slow --all", 12),
    "queue pause": ("mail", 1),
    "queue resume": ("imports", 1),
    "recover": ("", 1),
    "retries clear": ("--yes", 40),
    "retries delete": ("--all --yes", 40),
    "retries kill": ("--all --yes", 40),
    "retries reschedule": ("--all --at 5m --yes", 40),
    "retries retry": ("--all", 40),
    "scheduled clear": ("--yes", 3),
    "scheduled delete": ("--all --yes", 3),
    "scheduled kill": ("--all --yes", 3),
    "scheduled reschedule": ("--all --at 5m --yes", 3),
    "scheduled retry": ("--all", 3),
}
READS = {
    "batches list", "batches show", "brokers", "chains list", "chains show", "completion", "config check",
    "config diff", "config list", "config show", "dead list", "dead show", "dead summary", "doctor", "failures",
    "groups list", "groups show", "health", "history", "inprogress", "job list", "job show", "jobs", "leader show",
    "limits list", "limits show", "locks list", "locks show", "outbox list", "outbox show", "outbox summary",
    "parked list", "parked show", "parked summary", "periodic history", "periodic import", "periodic list",
    "periodic show", "processes list", "queue show", "queues", "replay", "reports", "retries list",
    "retries show",
    "retries summary", "scheduled list", "scheduled show", "stats", "status", "top", "version",
}  # fmt: skip
# They work jobs or serve pages, or command the process of this machine's pidfile, whose log tells it.
WORK = {"run", "start", "stop", "restart", "reload", "web serve"}
# It prints a line, which somebody may put into a file.
PRINTS = {"web grant"}
# As by the API: scripts may push all day, which would leave no room for other changes.
PUSHES = {"enqueue"}


def leaves(command: click.Command, context: click.Context, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, context, (*path, name))


COMMANDS = dict(leaves(main, click.Context(main)))


def test_every_command_is_known_as_one_that_changes_or_one_that_does_not() -> None:
    """A command of a feature may have its tests in the folder of the feature instead."""
    known = [*CHANGES, *READS, *WORK, *PRINTS, *PUSHES]
    assert len(known) == len({*known} & {*COMMANDS})
    of_features = {name for feature in FEATURES for name in feature.commands}
    assert {path for path in {*COMMANDS} - {*known} if path.split()[0] not in of_features} == set()


@pytest.fixture
def scene(app: App, redis: redis_py.Redis, on_this_server: None) -> Scene:
    return web_scene.restored(web_scene.fill_for_changes, app, redis)


def audit(app: App) -> list[AuditEntry]:
    return app.inspector.actions(100)


def test_each_command_that_changes_something_leaves_one_entry_with_its_count(
    app: App, called_app: App, redis: redis_py.Redis, scene: Scene, call: Call, tmp_path: Any
) -> None:
    called_app.timing = dataclasses.replace(called_app.timing, await_beat_s=0.01)
    (tmp_path / "conf.ini").write_text("[queue:q]\nconcurrency = 1\n")
    ids = {**scene._asdict(), "file": str(tmp_path / "conf.ini"), "python": "worker-1:1204:5d20c7",
           "ruby": "legacy-1:44:0f3b1e"}  # fmt: skip
    copy = web_scene.copied(redis)
    wrong: dict[str, object] = {}
    for path, (words, count) in CHANGES.items():
        arguments = shlex.split(words.format(**ids))
        tries = [["--dry-run"]] if any("--dry-run" in one.opts for one in COMMANDS[path].params) else []
        for dry in (*tries, []):
            redis.flushdb()
            web_scene.put_back(redis, copy)
            done = call(*path.split(), *arguments, *dry)
            entries = [(one.action, one.count) for one in audit(app)]
            if entries != ([] if dry else [(path, count)]) or "Traceback" in done.stderr:
                wrong[" ".join([path, *arguments, *dry])] = (entries, done.returncode, done.stderr)
            assert not any("s3cr3t" in one.what for one in audit(app))
    assert wrong == {}


def test_an_entry_tells_who_and_which_jobs_without_what_may_come_from_a_job(app: App, scene: Scene, call: Call) -> None:
    call("dead", "delete", "--class", "MailJob", "--arg", "s3cr3t", "--error", "s3cr3t", "--of-queue", "mail")
    call("queue", "pause", "a\n2026-01-01 bob")
    pause, delete = audit(app)
    assert delete.what == "dead, of class MailJob, of queue mail, by error and argument"
    assert "@" in delete.who
    assert pause.what == "queue a\\n2026-01-01 bob"


def test_a_command_that_is_killed_in_the_middle_has_noted_what_it_did_before(
    app: App, scene: Scene, call: Call, monkeypatch: pytest.MonkeyPatch, redis: redis_py.Redis
) -> None:
    monkeypatch.setattr(noting, "STEP_S", 0.0)
    redis.lpush("queue:mail", *(f'{{"class":"Old","args":[],"jid":"old{n}"}}' for n in range(1_600)))
    delete, until = Inspector.delete, list[list[AuditEntry]]()

    def watched(self: Inspector, *told: Any, **more: Any) -> Iterator[Any]:
        for step in delete(self, *told, **more):
            yield step
            until.append(audit(app))  # as it is if the command is killed here

    monkeypatch.setattr(Inspector, "delete", watched)
    assert call("queue", "delete", "mail", "--class", "Old").returncode == 0
    counts = [entry.count or 0 for (entry,) in until]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == 1_600
    assert {entry.what for (entry,) in until} == {"queue mail, of class Old: not finished"}
    (entry,) = audit(app)
    assert (entry.what, entry.count) == ("queue mail, of class Old", 1_600)


@pytest.mark.parametrize(
    ("error", "code"), [(BrokerUnavailable("the server is away"), 75), (KeyboardInterrupt(), 1)], ids=["away", "Ctrl-C"]
)
def test_a_command_that_fails_in_the_middle_tells_how_far_it_came(
    app: App, scene: Scene, call: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    delete = Inspector.delete

    def broken(self: Inspector, *told: Any, **more: Any) -> Iterator[Any]:
        yield next(iter(delete(self, *told, **more)))
        raise error

    monkeypatch.setattr(Inspector, "delete", broken)
    assert call("queue", "delete", "mail", "--match", "Ada").returncode == code
    (entry,) = audit(app)
    left = sum(1 for _ in app.inspector.jobs(app.inspector.waiting_in("mail")))
    assert (entry.what, entry.count) == ("queue mail, by match: failed, perhaps in the middle", 12 - left)


def test_a_change_that_cannot_be_noted_is_made_and_told(redis: redis_py.Redis, scene: Scene, call: Call) -> None:
    redis.set("pyworkers:audit", "no stream")
    done = call("queue", "clear", "mail", "--yes")
    assert (done.returncode, done.stdout) == (0, "12 jobs deleted\n")
    assert "this change could not be added to the audit list" in one_line(done.stderr)
