"""bin/torture works: its judge finds what is wrong in a written ledger, and a short run of ours loses nothing."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `bench` is not part of the installed package

from bench.torture.judge import UNEXPLAINED, Verdict, judge  # noqa: E402
from bench.torture.ledger import Ledger, entries  # noqa: E402
from bench.torture.page import PAGE, RESULTS, page  # noqa: E402
from bench.torture.plan import KINDS, Plan  # noqa: E402
from bench.torture.systems import SYSTEMS  # noqa: E402


def judged(text: str) -> Verdict:
    return judge(entries(dedent(text)))


# --- the ledger and the judge


def test_an_entry_is_read_as_it_was_noted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.note("begin", "job000001", "w0.1", 4242)
    ledger.close()
    [entry] = ledger.read()
    assert (entry.word, entry.details) == ("begin", ("job000001", "w0.1", "4242"))


def test_a_job_that_never_ended_is_lost_unless_nobody_acknowledged_its_push() -> None:
    verdict = judged("""\
        push 1 job1 0
        pushed 2 job1
        push 3 job2 0
        unsure 4 job2
        push 5 job3 0
        pushed 6 job3
        begin 7 job3 w0.1 42
        push 8 job4 0
        pushed 9 job4
        begin 10 job4 w0.1 42
        end 11 job4 w0.1 42
        """)
    assert verdict.lost == ["job1", "job3"]
    assert (verdict.acknowledged, verdict.unsure, verdict.unsure_that_ran, verdict.ended) == (3, 1, 0, 1)
    assert not verdict.fine


def test_a_second_run_is_explained_by_a_fault_that_touched_the_first_one() -> None:
    verdict = judged("""\
        push 1 job1 0
        pushed 2 job1
        push 1 job2 0
        pushed 2 job2
        fault 10 pause w0
        mended 20 pause w0
        begin 9 job1 w0.1 42
        end 21 job1 w0.1 42
        begin 15 job1 w1.1 43
        end 16 job1 w1.1 43
        begin 3 job2 w1.1 43
        end 4 job2 w1.1 43
        begin 25 job2 w1.1 43
        end 26 job2 w1.1 43
        """)
    assert verdict.twice == {"job1": "pause during its first run", "job2": UNEXPLAINED}
    assert verdict.unexplained == ["job2"]
    assert verdict.fine


@pytest.mark.parametrize("fault", ["3 kill w1", "20 kill w0"])
def test_a_fault_of_another_worker_or_at_another_time_explains_nothing(fault: str) -> None:
    verdict = judged(f"""\
        push 1 job1 0
        pushed 2 job1
        fault {fault}
        mended {fault}
        begin 2.5 job1 w0.1 42
        end 4 job1 w0.1 42
        begin 25 job1 w0.1 42
        end 26 job1 w0.1 42
        """)
    assert verdict.unexplained == ["job1"]


def test_a_run_that_was_cut_short_and_a_retry_are_no_second_run() -> None:
    verdict = judged("""\
        push 1 job1 0
        pushed 2 job1
        begin 3 job1 w0.1 42
        begin 4 job1 w1.1 43
        fail 5 job1 w1.1 43
        begin 6 job1 w1.1 43
        end 7 job1 w1.1 43
        """)
    assert verdict.twice == {}
    assert verdict.begun_again == 1


def test_a_job_that_begins_before_it_is_due_is_early() -> None:
    verdict = judged("""\
        push 1 job1 10.000
        pushed 2 job1
        begin 9.5 job1 w0.1 42
        end 9.6 job1 w0.1 42
        push 1 job2 10.000
        pushed 2 job2
        begin 10.001 job2 w0.1 42
        end 11 job2 w0.1 42
        """)
    assert verdict.early == {"job1": 0.5}


def test_a_queue_is_stuck_in_which_a_job_waits_and_none_begins() -> None:
    waits = """\
        push 1 job0 0
        pushed 1 job0
        begin 2 job0 w0.1 42
        end 2 job0 w0.1 42
        push 1 job1 0
        pushed 2 job1
        fault 2 cut w0
        {fault}
        begin {began} job1 w0.1 42
        end 100 job1 w0.1 42
        calm 101
        quiet 102
        """
    assert judged(waits.format(began=31, fault="mended 2 cut w0")).stuck == []
    assert judged(waits.format(began=50, fault="mended 2 cut w0")).stuck == ["no job began for 48 s, and 1 waited"]
    # Redis is away, the worker stands still, or has ended.
    for fault in ("fault 10 restart server", "fault 10 freeze w0", "down 10 w0.1 killed"):
        assert judged(waits.format(began=50, fault=fault)).stuck == []


def test_a_worker_is_stuck_that_runs_nothing_after_the_last_fault() -> None:
    runs = "".join(
        f"push {at} job{at} 0\npushed {at} job{at}\nbegin {at} job{at} w1.1 43\nend {at} job{at} w1.1 43\n"
        for at in range(1, 50)
    )
    assert judged(f"up 0 w0.1\nup 0 w1.1\n{runs}calm 10\nquiet 50\n").stuck == [
        "w0.1 ran nothing after the last fault, for 40 s"
    ]
    assert judged(f"up 0 w0.1\nup 0 w1.1\n{runs}down 49 w0.1 stopped\ncalm 10\nquiet 50\n").stuck == []


# --- the plan


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    plan, same, other = (Plan(seed, 240, tuple(KINDS)) for seed in (7, 7, 8))
    assert (plan.faults(), list(plan.jobs())) == (same.faults(), list(same.jobs()))
    assert plan.faults() != other.faults()
    assert {fault.kind for fault in plan.faults()} == set(KINDS)


@pytest.mark.parametrize("seed", range(5))
def test_the_faults_of_a_plan_come_one_after_the_other_and_a_freeze_once(seed: int) -> None:
    faults = Plan(seed, 900, tuple(KINDS)).faults()
    assert [fault.kind for fault in faults].count("freeze") == 1
    assert all(first.at_s + first.lasts_s < second.at_s for first, second in itertools.pairwise(faults))
    assert faults[-1].at_s + faults[-1].lasts_s <= 900


# --- the program


def torture(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "bin/torture", *words], capture_output=True, text=True, timeout=280)


def test_its_list_names_each_system_and_each_fault() -> None:
    done = torture("--list")
    assert done.returncode == 0, done.stderr
    named = [line.split()[0] for line in done.stdout.splitlines() if line and line != "faults:"]
    assert named == [*SYSTEMS, *KINDS]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("server_program")
def test_a_short_run_of_ours_loses_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    short = ["--seed", "3", "--minutes", "0.2", "--calm", "2", "--settle", "30", "--hurry"]
    done = torture("ours", *short, "--faults", "kill,deploy", "--json", results)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = json.loads(results.read_text("utf-8"))["records"]
    assert record["faults"] == {"kill": 1, "deploy": 1}
    assert record["verdict"]["lost"] == record["verdict"]["stuck"] == []
    assert record["verdict"]["acknowledged"] == record["verdict"]["ended"] > 100


def test_a_system_that_is_not_known_is_a_usage_error() -> None:
    done = torture("sidekick")
    assert done.returncode == 2
    assert "no system 'sidekick': there are ours, goworkers-py, sidekiq, " in done.stderr


# --- the page


def test_the_page_is_what_its_results_say() -> None:
    records = json.loads((ROOT / "docs" / RESULTS).read_text("utf-8"))["records"]
    assert (ROOT / "docs" / PAGE).read_text("utf-8") == page(records)
    assert {record["system"] for record in records} == set(SYSTEMS)
