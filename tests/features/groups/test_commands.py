"""`pyworkers groups`, and groups in `stats` and `job show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from apps import job, own_broker
from calls import Call, one_line

from goworkers_py.brokers.redis.broker import RedisBroker
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings

pytestmark = pytest.mark.usefixtures("on_this_server")

GROUP = Group("billing", "Invoice", "user:7")


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker


def push(broker: RedisBroker, *jids: str, group: Group = GROUP, settings: GroupSettings | None = None) -> None:
    joining = GroupMembership(group, settings or GroupSettings(grace_s=3600))
    broker.transport.publish([Push(group.queue, job("Invoice", jid=jid), ties=(joining,)) for jid in jids])


def test_groups_are_a_table_or_json(broker: RedisBroker, call: Call) -> None:
    push(broker, "a", "b")
    push(broker, "c", group=Group("slow", "Report", "day"), settings=GroupSettings(60, 90, 1))
    header, first, second = call("groups", "list").stdout.splitlines()
    assert header.split()[:4] == ["class", "queue", "group", "set"]
    assert first.split()[:3] == ["Invoice", "billing", "user:7"]
    assert "grace 1 h" in first
    assert second.split()[:3] == ["Report", "slow", "day"]
    [line] = call("groups", "list", "--class", "Invoice", "--json").stdout.splitlines()
    told = json.loads(line)
    assert told["group"] == {"queue": "billing", "job_class": "Invoice", "name": "user:7", "set": ""}
    assert (told["size"], told["settings"]["grace_s"]) == (2, 3600)


def test_no_groups_are_told_on_stderr(call: Call) -> None:
    done = call("groups", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert one_line(done.stderr) == "no groups"


def test_the_members_of_a_group_are_shown(broker: RedisBroker, call: Call) -> None:
    push(broker, "a", "b", "c")
    shown = call("groups", "show", "Invoice", "user:7", "--limit", "2", "--json")
    assert [json.loads(line)["job"]["jid"] for line in shown.stdout.splitlines()] == ["a", "b"]
    assert "first 2" in shown.stderr
    done = call("groups", "show", "Invoice", "user:8")
    assert done.returncode == 1
    assert one_line(done.stderr) == ("there is no group user:8 of Invoice; `pyworkers groups list` lists all")


def test_a_group_of_two_queues_is_chosen_by_its_queue(broker: RedisBroker, call: Call) -> None:
    push(broker, "a")
    push(broker, "b", group=GROUP._replace(queue="slow"))
    done = call("groups", "show", "Invoice", "user:7")
    assert done.returncode == 1
    assert "queues billing, slow have a group user:7" in done.stderr
    shown = call("groups", "show", "Invoice", "user:7", "--queue", "slow", "--json").stdout
    assert json.loads(shown)["job"]["jid"] == "b"


def test_a_group_is_flushed_by_hand(broker: RedisBroker, call: Call) -> None:
    push(broker, "a")
    assert call("groups", "flush", "Invoice", "user:7", "--dry-run").stdout == "user:7: would be flushed\n"
    assert broker.require_part(Groups).due("Invoice", 1).groups == []
    assert call("groups", "flush", "Invoice", "user:7").stdout == "user:7: is due now\n"
    assert broker.require_part(Groups).due("Invoice", 1).groups == [GROUP]
    done = call("groups", "flush", "Invoice", "other", "--queue", "billing")
    assert (done.returncode, one_line(done.stderr)) == (1, "no members in group other of Invoice")


def test_a_group_whose_members_are_in_a_set_tells_which(broker: RedisBroker, call: Call) -> None:
    push(broker, "a", settings=GroupSettings(grace_s=0))
    broker.require_part(Groups).flush(GROUP, GROUP._replace(set="s1"), job("Invoice", jid="f"))
    for command in ("show", "flush"):
        done = call("groups", command, "Invoice", "user:7")
        assert one_line(done.stderr) == (
            "no members in group user:7 of Invoice; to see those whose aggregation job was pushed, add --set: s1"
        )
    assert call("groups", "show", "Invoice", "user:7", "--set", "s1", "--json").stdout.count('"jid":"a"') == 1


def test_a_group_gets_settings_of_its_own(broker: RedisBroker, call: Call) -> None:
    push(broker, "a")
    assert call("groups", "set", "Invoice", "user:7", "--grace", "5", "--dry-run").stdout == (
        "user:7: would have grace 5 s\n"
    )
    assert call("groups", "set", "Invoice", "user:7", "--grace", "5").stdout == "user:7: has grace 5 s\n"
    assert call("groups", "set", "Invoice", "user:7", "--max-size", "9").stdout == (
        "user:7: has grace 5 s, max size 9\n"
    )
    entry = broker.require_part(Groups).entry(GROUP)
    assert entry is not None
    assert entry.settings == (5, 0, 9)
    assert "(set by hand)" in call("groups", "list").stdout
    assert call("groups", "set", "Invoice", "user:7", "--reset").stdout == "user:7: has no settings of its own\n"
    again = call("groups", "set", "Invoice", "user:7", "--reset")
    assert (again.returncode, one_line(again.stderr)) == (1, "user:7: nothing is set")
    assert call("groups", "set", "Invoice", "user:7").returncode == 2
    unknown = call("groups", "set", "Invoice", "new", "--grace", "5")
    assert (unknown.returncode, "takes settings with --queue" in unknown.stderr) == (1, True)
    new = call("groups", "set", "Invoice", "new", "--queue", "billing", "--grace", "5m")
    assert (new.stdout, new.returncode) == ("new: has grace 5 min\n", 0)
    assert one_line(new.stderr) == ("warning: no live process fetches from queue billing: look for a misspelt name")
    exact = call("groups", "set", "Invoice", "new", "--queue", "billing", "--grace", "90", "--max-delay", "0")
    assert exact.stdout == "new: has grace 90 s, max delay 0\n"
    assert "grace 90 s (set by hand)" in call("groups", "list").stdout
    wrong = call("groups", "set", "Invoice", "user:7", "--grace", "5x")
    assert (wrong.returncode, "'5x' is no length of time; give 5m, 2h, 1d or seconds" in wrong.stderr) == (2, True)
    assert "class Invioce has no groups now, and no live process" in (
        call("groups", "set", "Invioce", "user:7", "--queue", "billing", "--grace", "5", "--dry-run").stderr
    )
    told = [json.loads(line) for line in call("groups", "list", "--json").stdout.splitlines()]
    assert {one["group"]["name"]: one["own"]["grace_s"] for one in told} == {"user:7": None, "new": 90}


def test_the_help_of_set_has_the_settings_first(call: Call) -> None:
    told = call("groups", "set", "--help").stdout
    assert told.index("--grace TIME") < told.index("--queue TEXT")
    assert "--set " not in told


def test_the_members_of_a_group_are_deleted(broker: RedisBroker, call: Call, redis: redis_py.Redis) -> None:
    push(broker, "a", "b")
    assert call("groups", "delete", "Invoice", "user:7").returncode == 2  # not confirmed
    assert call("groups", "delete", "Invoice", "user:7", "--dry-run").stdout == "2 jobs would be deleted\n"
    assert call("groups", "delete", "Invoice", "user:7", "--yes").stdout == "2 jobs deleted\n"
    assert redis.keys("pyworkers:group*") == []
    assert call("groups", "delete", "Invoice", "user:7", "--queue", "billing", "--yes").returncode == 1


def test_stats_count_groups_and_their_members(broker: RedisBroker, call: Call) -> None:
    push(broker, "a", "b")
    push(broker, "c", group=GROUP._replace(name="user:8"))
    told = json.loads(call("stats", "--json").stdout)
    assert (told["groups"], told["grouped"]) == (2, 3)
    assert told["oldest_grouped_s"] >= 0


def test_a_member_is_found_by_its_jid(broker: RedisBroker, call: Call) -> None:
    push(broker, "a")
    told = json.loads(call("job", "show", "a", "--json").stdout)
    assert (told["state"], told["group"], told["queue"]) == ("grouped", "user:7", "billing")
    assert "grouped" in call("job", "show", "a").stdout


def test_config_check_tells_of_a_class_whose_groups_nothing_aggregates(call: Call, here: Path) -> None:
    (here / "mails.py").write_text(
        "import goworkers_py as workers\n@workers.job('Mail', group_grace=5)\ndef mail(): ...\n"
    )
    done = call("config", "check", "-r", "mails")
    assert "warning: Mail has group_grace and no @mail.aggregate: its groups wait for ever" in done.stdout.splitlines()
    assert done.returncode == 0


def test_groups_by_default_warn_of_no_class(call: Call, here: Path) -> None:
    (here / "mails.py").write_text(
        "import goworkers_py as workers\nworkers.defaults(group_grace=5)\n@workers.job('Mail')\ndef mail(): ...\n"
    )
    assert "wait for ever" not in call("config", "check", "-r", "mails").stdout


def test_an_unknown_option_suggests_only_options_of_the_help(call: Call) -> None:
    done = call("groups", "list", "--state", "x")
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "--stats-host" not in done.stderr
