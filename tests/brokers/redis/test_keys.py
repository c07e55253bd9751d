from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from redis.crc import key_slot

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import parts, types_of_shared

DAY = datetime.date(2025, 2, 4)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "keys.md"
MINUTE = datetime.datetime(2025, 2, 4, 8, 3, 59, tzinfo=datetime.timezone.utc)


# These methods return no key, or only what another method returns too.
NO_KEYS = {
    "prefix",
    "types",
    "inprogress_of",
    "own_queue",  # tested below
    "any_inprogress",
    "queue_and_owner",
    "bare",
}


def every_key(keys: Keys) -> dict[str, str]:
    fixed = {name: value for name, value in vars(keys).items() if name != "prefix"}
    of_features = {name: key for part in parts() for name, key in part.every_key(keys).items()}
    return (
        fixed
        | of_features
        | {
            "nothing": re.sub("[0-9a-f]{16}$", "RANDOM", keys.nothing),
            "queue": keys.queue("QUEUE"),
            "inprogress": keys.inprogress("QUEUE", "OWNER"),
            "lease": keys.lease("OWNER"),
            "holder": keys.holder("PROCESS"),
            "receipt": keys.receipt("SETTLER"),
            "fence": keys.fence("ELECTION"),
            "line": keys.line("LINE"),
            "outbox": keys.outbox("BROKER"),
            "value": keys.value("KIND", "JID"),
            "applied": keys.applied("KIND", "JID"),
            "ended_message": keys.ended_message("DIGEST"),
            "pushed": keys.pushed("ID"),
            "member": keys.member("IDENTITY"),
            "work": keys.works("IDENTITY")[0],
            "works": keys.works("IDENTITY")[1],
            "signals": keys.signals("IDENTITY"),
            "minute_of_seven": keys.minute_of_seven(MINUTE),
            "histogram_of_seven": keys.histogram_of_seven("CLASS", MINUTE),
            "minute_of_eight": keys.minute_of_eight(MINUTE),
            "ten_minutes_of_eight": keys.ten_minutes_of_eight(MINUTE),
            "histogram_of_eight": keys.histogram_of_eight("CLASS", MINUTE),
            "marks": keys.marks(MINUTE),
            "deploy_lock": keys.deploy_lock("LABEL"),
            "processed_on": keys.processed_on(DAY),
            "failed_on": keys.failed_on(DAY),
            "day": keys.day(DAY),
        }
    )


def test_every_method_that_names_a_key_is_tested_here() -> None:
    named = {name for name in dir(Keys()) if not name.startswith("_")}
    of_features = {name for part in parts() for name in part.every_key(Keys())}
    assert named - NO_KEYS == set(every_key(Keys())) - {"work", *of_features}


def test_no_two_keys_have_one_name() -> None:
    keys = every_key(Keys())
    of_features = [name for part in parts() for name in part.every_key(Keys())]
    assert len(of_features) == len(set(of_features))
    assert len(set(keys.values())) == len(keys)


def documented() -> dict[str, list[str]]:
    """The rows of the tables, by key."""
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    return {row[0].strip(" `").replace("\\|", "|"): [cell.strip() for cell in row] for row in rows}


def test_the_page_of_the_keys_has_every_key_and_no_other() -> None:
    assert sorted(documented()) == sorted(every_key(Keys()).values())


def test_each_key_is_documented_with_its_type_life_writers_readers_and_release() -> None:
    types = types_of_shared(Keys())
    for key, row in documented().items():
        assert len(row) == 7, key
        assert all(row), key
        assert row[1] in {"string", "list", "set", "zset", "hash", "stream", "none"}, key
        assert row[1] == types.get(key, row[1]), key
        assert re.fullmatch(r"0\.\d+\.0", row[6]), key


def test_with_a_hash_tag_as_namespace_all_keys_are_in_one_slot_of_a_cluster() -> None:
    assert len({key_slot(key.encode()) for key in every_key(Keys("{jobs}")).values()}) == 1
    assert len({key_slot(key.encode()) for key in every_key(Keys("jobs")).values()}) > 10


def test_keys_have_the_names_that_sidekiq_and_go_workers_use() -> None:
    assert every_key(Keys()) == {
        "queues": "queues",
        "schedule": "schedule",
        "retry": "retry",
        "dead": "dead",
        "paused": "paused",
        "processed": "stat:processed",
        "failed": "stat:failed",
        "processed_on": "stat:processed:2025-02-04",
        "failed_on": "stat:failed:2025-02-04",
        "day": "pyworkers:day:2025-02-04",
        "queue": "queue:QUEUE",
        "inprogress": "queue:QUEUE:OWNER:inprogress",
        "owners": "pyworkers:owners",
        "blocks": "pyworkers:blocks",
        "gone": "pyworkers:gone",
        "nothing": "pyworkers:none:RANDOM",
        "lease": "pyworkers:lease:OWNER",
        "holder": "pyworkers:process:PROCESS",
        "receipt": "pyworkers:receipt:SETTLER",
        "lines": "pyworkers:lines",
        "outboxes": "pyworkers:outboxes",
        "outbox": "pyworkers:outbox:BROKER",
        "line": "pyworkers:line:LINE",
        "value": "pyworkers:value:KIND:JID",
        "record": "pyworkers:job:JID",
        "ended": "pyworkers:ended:STATE",
        "tombstones": "pyworkers:tombstones",
        "tombstones_version": "pyworkers:tombstones:version",
        "cancelled": "pyworkers:cancelled:JID",
        "calls": "pyworkers:calls",
        "reports": "pyworkers:reports",
        "audit": "pyworkers:audit",
        "answers": "pyworkers:answers:CALL",
        "configs": "pyworkers:configs",
        "config": "pyworkers:config:NAME",
        "lock": "pyworkers:lock:CLASS:DIGEST",
        "fence": "pyworkers:leader:ELECTION",
        "election": "pyworkers:election:ELECTION",
        "limits": "pyworkers:limits",
        "limits_due": "pyworkers:limits:due",
        "limit": "pyworkers:limit:LIMIT",
        "places": "pyworkers:slot:LIMIT:KEY",
        "cron_jobs": "cron_jobs:NAMESPACE",
        "cron_job": "cron_job:NAMESPACE:NAME",
        "schedules": "schedules",
        "schedule_states": "sidekiq-scheduler:states",
        "periodics": "pyworkers:periodics",
        "periodic": "pyworkers:periodic:SOURCE:NAME",
        "periodic_history": "pyworkers:periodic-history:SOURCE:NAME",
        "periodic_source": "pyworkers:periodic-source:SOURCE",
        "batches": "pyworkers:batches",
        "batch": "pyworkers:batch:BID",
        "chains": "pyworkers:chains",
        "chain": "pyworkers:chain:CID",
        "deaths": "pyworkers:deaths:BID",
        "groups": "pyworkers:groups",
        "groups_of": "pyworkers:groups:CLASS",
        "group": "pyworkers:group:DIGEST",
        "members": "pyworkers:group:DIGEST:members",
        "group_set": "pyworkers:group-set:SET",
        "delays": "pyworkers:delay-tasks:QUEUE",
        "delay_due": "pyworkers:delay-due:QUEUE",
        "delay_claims": "pyworkers:delay-claims:QUEUE",
        "delay_owners": "pyworkers:delay-owners:QUEUE",
        "delay_list": "__delay_queue_list__",
        "delay_task": "delaytk_ID",
        "iteration": "it-JID",
        "status": "sidekiq:status:JID",
        "ruby_lock": "uniquejobs:DIGEST:LOCKED",
        "last": "uniquejobs:DIGEST",
        "queued": "uniquejobs:DIGEST:QUEUED",
        "primed": "uniquejobs:DIGEST:PRIMED",
        "info": "uniquejobs:DIGEST:INFO",
        "digests": "uniquejobs:digests",
        "expiring_digests": "uniquejobs:expiring_digests",
        "applied": "pyworkers:applied:KIND:JID",
        "ended_message": "pyworkers:ended-message:DIGEST",
        "pushed": "pyworkers:pushed:ID",
        "processes": "processes",
        "process_cleanup": "process_cleanup",
        "member": "IDENTITY",
        "work": "IDENTITY:work",
        "works": "IDENTITY:workers",
        "signals": "IDENTITY-signals",
        "minute_of_seven": "j|20250204|8:3",
        "histogram_of_seven": "CLASS-04-08:3",
        "minute_of_eight": "j|250204|8:03",
        "ten_minutes_of_eight": "j|250204|8:0",
        "histogram_of_eight": "h|CLASS-4-8:3",
        "marks": "20250204-marks",
        "deploy_lock": "deploylock-LABEL",
    }


def test_a_namespace_stands_before_every_key() -> None:
    bare, prefixed = every_key(Keys()), every_key(Keys("ns"))
    assert prefixed == {name: f"ns:{key}" for name, key in bare.items()}


@pytest.mark.parametrize(
    ("namespace", "written", "meant"),
    [
        ("ns", "ns:mail", "mail"),
        ("ns", "mail", "mail"),
        ("ns", "ns:ns:mail", "ns:mail"),
        ("ns", "nsmail", "nsmail"),
        ("", "ns:mail", "ns:mail"),
        ("", ":mail", ":mail"),
    ],
)
def test_the_namespace_that_go_workers_leaks_into_a_queue_is_taken_off_once(
    namespace: str, written: str, meant: str
) -> None:
    assert Keys(namespace).bare(written) == meant


def test_the_list_of_another_program_is_the_key_itself_and_what_is_in_progress_of_it_is_ours() -> None:
    keys, level = Keys("app"), "mail@plain:demo.prepare"
    assert keys.queue(level) == "demo.prepare"
    assert keys.own_queue(level) == "app:queue:mail@plain:demo.prepare"
    assert keys.inprogress(level, "me") == "app:queue:mail@plain:demo.prepare:me:inprogress"
    assert keys.queue("mail") == keys.own_queue("mail") == "app:queue:mail"
