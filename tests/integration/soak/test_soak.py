"""The proof that the judge of the soak finds growth and lost jobs, and a short soak."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))  # `bench`, which draws, is not part of the installed package

from soak.judge import ROLES, Record, Sample, judge, read_record  # noqa: E402
from soak.ledger import Ledger  # noqa: E402
from soak.report import table, write_docs  # noqa: E402
from soak.samples import family_of  # noqa: E402

HOURS, STEP_S = 8, 120
HEAD = {
    "begin": True, "at": "2026-01-02T03:04:05+00:00", "seconds": HOURS * 3600.0, "version": "1.2.3", "python": "3.12.1",
    "cores": 2, "redis": "7.0.1",
}  # fmt: skip


def sample_at(seconds: float, dice: random.Random) -> Sample:
    """Of a fleet that is flat, with the noise of a real one: memory rises in the first quarter."""
    warm = min(1.0, seconds / (HOURS * 3600 / 4))
    process = {"pid": 1, "uss_kb": 40_000 + 5_000 * warm + dice.uniform(-200, 200), "threads": 40, "descriptors": 30}
    return {
        "s": seconds,
        "processes": {role: {**process, "cpu_s": seconds / 20} for role in ROLES},
        "redis": {
            "used_memory": 5e6 + 3e6 * warm + dice.uniform(-1e5, 1e5),
            "connected_clients": 60 + dice.choice([0, 0, 0, 1]),
            "number_of_cached_scripts": 31,
            "dbsize": 900 + dice.randrange(-20, 20),
            "keys": {"pyworkers:job": 300 + dice.randrange(-20, 20), "pyworkers:limits": 1},
            "staying": {"pyworkers:limits": 1},
            "entries": {"dead": min(500, int(seconds / 3)), "pyworkers:limits": 4},
        },
        "jobs": {"pushed": {"plain": int(seconds * 50)}, "ended": {"plain": int(seconds * 50) - 30}, "again": {}},
        "open": 30 + dice.randrange(10),
        "late_ms": {"50": 1.5 + dice.random(), "99": 20.0},
    }


def recorded(change: Callable[[Sample, float], None] = lambda sample, hours: None) -> Record:
    """`change` is called with each sample, and with its time in hours."""
    dice = random.Random(1)
    samples = [sample_at(seconds, dice) for seconds in range(STEP_S, HOURS * 3600 + 1, STEP_S)]
    for sample in samples:
        change(sample, sample["s"] / 3600)
    return Record(HEAD, samples, {"end": True, "wrong": [], "jobs": samples[-1]["jobs"]})


def test_a_flat_run_passes() -> None:
    record = recorded()
    assert judge(record) == []
    assert {row[-1] for row in table(record)[1:]} == {"flat"}


def memory(sample: Sample, hours: float) -> None:
    sample["processes"]["child 1"]["uss_kb"] += 300 * hours


def descriptor_an_hour(sample: Sample, hours: float) -> None:
    sample["processes"]["parent"]["descriptors"] += int(hours)


def thread_an_hour(sample: Sample, hours: float) -> None:
    sample["processes"]["producer"]["threads"] += int(hours)


def connection_an_hour(sample: Sample, hours: float) -> None:
    sample["redis"]["connected_clients"] += int(hours)


def memory_of_the_server(sample: Sample, hours: float) -> None:
    sample["redis"]["used_memory"] += 150_000 * hours


def script_in_the_last_hours(sample: Sample, hours: float) -> None:
    sample["redis"]["number_of_cached_scripts"] += hours > 5


def key_an_hour(sample: Sample, hours: float) -> None:
    sample["redis"]["staying"]["pyworkers:slot"] = int(hours)


def entries(sample: Sample, hours: float) -> None:
    sample["redis"]["entries"]["pyworkers:limits"] += int(hours)


def backlog(sample: Sample, hours: float) -> None:
    sample["open"] += int(hours * 2)


@pytest.mark.parametrize(
    ("grows", "name"),
    [
        (memory, "child 1, memory"),
        (descriptor_an_hour, "parent, descriptors"),
        (thread_an_hour, "producer, threads"),
        (connection_an_hour, "redis, connections"),
        (memory_of_the_server, "redis, memory"),
        (script_in_the_last_hours, "redis, scripts"),
        (key_an_hour, "pyworkers:slot, keys that stay"),
        (entries, "pyworkers:limits, entries"),
        (backlog, "jobs that have not ended"),
    ],
)
def test_growth_is_found(grows: Callable[[Sample, float], None], name: str) -> None:
    [complaint] = judge(recorded(grows))
    assert complaint.startswith(f"{name} has grown from ")


def test_a_process_between_two_lives_is_no_growth() -> None:
    def dies(sample: Sample, hours: float) -> None:
        if hours % 1 < 0.05:
            sample["processes"]["changing"] = {}

    assert judge(recorded(dies)) == []


def test_a_time_in_which_the_machine_was_busy_is_no_growth() -> None:
    """There were fewer keys before than after it."""

    def starve(sample: Sample, hours: float) -> None:
        if 2 < hours < 3.6:
            sample["redis"]["keys"]["pyworkers:job"] -= 180

    assert judge(recorded(starve)) == []


def test_lost_jobs_and_an_early_end_are_told() -> None:
    record = recorded()
    lost = "2 jobs have not ended: plain:1, plain:2"
    assert judge(Record(record.head, record.samples, {**record.end, "wrong": [lost]})) == [lost]
    assert judge(Record(record.head, record.samples, {})) == ["the run did not come to its end"]


def test_a_run_that_is_too_short_to_judge_fails() -> None:
    record = recorded()
    assert judge(Record(record.head, record.samples[:30], record.end)) == ["too few samples"]


def test_the_page_tells_how_long_it_ran_and_has_a_picture_of_both_themes(tmp_path: Path) -> None:
    (tmp_path / "internals").mkdir()
    write_docs(recorded(), tmp_path)
    text = (tmp_path / "internals/soak.md").read_text("utf-8")
    assert "began at 2026-01-02 03:04 UTC and took **8 hours**: goworkers-py 1.2.3, Python 3.12.1, Redis 7.0.1" in text
    assert "Nothing has grown, and no job was lost." in text
    assert '<img alt="What may grow, over the hours of a soak" src="../soak.svg">' in text
    light, dark = (ElementTree.parse(tmp_path / f"soak{theme}.svg").getroot() for theme in ("", "-dark"))
    lines = light.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * (len(ROLES) - 1) + 6
    assert all(line.get("points") for line in lines)
    assert len(dark) == len(light)


def test_the_page_tells_what_has_grown(tmp_path: Path) -> None:
    (tmp_path / "internals").mkdir()
    write_docs(recorded(thread_an_hour), tmp_path)
    text = (tmp_path / "internals/soak.md").read_text("utf-8")
    assert "- producer, threads has grown from" in text
    assert "Nothing has grown" not in text
    assert text.count("**grows**") == 1


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("queue:mail", "queue:QUEUE"),
        ("queue:mail:vm:1:2f:inprogress", "queue:QUEUE:OWNER:inprogress"),
        ("pyworkers:batch:abc", "pyworkers:batch"),
        ("pyworkers:limits:due", "pyworkers:limits"),
        ("stat:processed:2026-01-02", "stat:processed"),
        ("it-abc", "it-JID"),
        ("j|20260102|3:4", "metrics"),
        ("Soak::Plain-02-3:4", "metrics"),
        ("vm:4242:1d0f22ab7c31:work", "IDENTITY"),
        ("dead", "dead"),
    ],
)
def test_keys_are_counted_by_family(key: str, family: str) -> None:
    assert family_of(key) == family


def test_the_ledger_knows_which_jobs_have_not_ended(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ends")
    for number in range(4):
        ledger.expect(f"plain:{number}")
    ledger.end("plain:0")
    ledger.end("plain:0")  # it ran twice, after a kill
    ledger.end("plain:3", 0.5)
    ledger.forget("plain:1")
    assert ledger.open() == ["plain:2"]
    assert ledger.counts() == {"pushed": {"plain": 3}, "ended": {"plain": 2}, "again": {"plain": 1}}
    assert ledger.take_latencies() == [0.5]
    ledger.close()


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.usefixtures("server_program")
def test_a_soak_of_some_seconds_loses_no_job(tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/tests/support:{ROOT}/tests/integration:{ROOT}"}
    command = [sys.executable, "-m", "soak", "--hours", "0.005", "--samples", str(samples)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    record = read_record(samples)
    assert record.end["wrong"] == [], done.stdout + done.stderr
    assert sum(record.end["jobs"]["ended"].values()) > 500
    assert all(record.samples[0]["processes"][role] for role in ROLES)
