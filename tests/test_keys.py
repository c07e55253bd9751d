from __future__ import annotations

import datetime

import pytest

from goworkers_py.keys import Keys

DAY = datetime.date(2025, 2, 4)
MINUTE = datetime.datetime(2025, 2, 4, 8, 3, 59, tzinfo=datetime.timezone.utc)


def every_key(keys: Keys) -> dict[str, str]:
    fixed = {name: value for name, value in vars(keys).items() if name != "prefix"}
    return fixed | {
        "queue": keys.queue("a:b"),
        "inprogress": keys.inprogress("mail", "host:1:abc"),
        "lease": keys.lease("host:1:abc"),
        "holder": keys.holder("1"),
        "receipt": keys.receipt("mail:x"),
        "member": keys.member("host:1:abc"),
        "work": keys.works("host:1:abc")[0],
        "workers": keys.works("host:1:abc")[1],
        "signals": keys.signals("host:1:abc"),
        "minute_of_seven": keys.minute_of_seven(MINUTE),
        "histogram_of_seven": keys.histogram_of_seven("Foo", MINUTE),
        "minute_of_eight": keys.minute_of_eight(MINUTE),
        "ten_minutes_of_eight": keys.ten_minutes_of_eight(MINUTE),
        "histogram_of_eight": keys.histogram_of_eight("Foo", MINUTE),
        "marks": keys.marks(MINUTE),
        "deploy_lock": keys.deploy_lock("v1"),
        "processed_on": keys.processed_on(DAY),
        "failed_on": keys.failed_on(DAY),
    }


def test_keys_are_those_of_sidekiq_and_go_workers_and_a_few_of_our_own() -> None:
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
        "queue": "queue:a:b",
        "inprogress": "queue:mail:host:1:abc:inprogress",
        "owners": "pyworkers:owners",
        "gone": "pyworkers:gone",
        "nothing": "pyworkers:none",
        "lease": "pyworkers:lease:host:1:abc",
        "holder": "pyworkers:process:1",
        "receipt": "pyworkers:receipt:mail:x",
        "processes": "processes",
        "process_cleanup": "process_cleanup",
        "member": "host:1:abc",
        "work": "host:1:abc:work",
        "workers": "host:1:abc:workers",
        "signals": "host:1:abc-signals",
        "minute_of_seven": "j|20250204|8:3",
        "histogram_of_seven": "Foo-04-08:3",
        "minute_of_eight": "j|250204|8:03",
        "ten_minutes_of_eight": "j|250204|8:0",
        "histogram_of_eight": "h|Foo-4-8:3",
        "marks": "20250204-marks",
        "deploy_lock": "deploylock-v1",
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
