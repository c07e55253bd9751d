"""The running jobs that `/stats` shows."""

from __future__ import annotations

from goworkers_py.core.delivery import Delivery
from goworkers_py.observe.running_jobs import LONGEST_SHOWN, MOST_SHOWN, RunningJob, oldest, shown


def running(raw: bytes, begun_at: float) -> Delivery:
    delivery = Delivery(raw, "q", "me")
    delivery.begun_at = begun_at
    return delivery


def test_a_running_job_is_shown_by_its_payload() -> None:
    raw = b'{"class": "A", "args": [1.0e+16]}'
    assert shown([running(raw, 12.7)]) == [RunningJob(message=raw.decode(), started_at=12)]


def test_no_job_and_one_too_long_even_when_shortened_are_left_out() -> None:
    long_name = f'{{"class":"{"A" * LONGEST_SHOWN}"}}'.encode()
    assert shown([running(b"{no job", 1.0), running(b"\xff", 1.0), running(long_name, 1.0)]) == []


def test_a_payload_is_shortened_once() -> None:
    delivery = running(b'{"class":"A","args":["%s"]}' % (b"x" * LONGEST_SHOWN), 1.0)
    [first] = shown([delivery])
    [again] = shown([delivery])
    assert first["message"] is again["message"]
    assert len(first["message"]) < 200


def test_the_oldest_are_shown_first_and_only_so_many() -> None:
    jobs = [RunningJob(message="{}", started_at=at) for at in range(MOST_SHOWN + 10, 0, -1)]
    told = oldest([jobs[:100], jobs[100:]])
    assert [job["started_at"] for job in told] == list(range(1, MOST_SHOWN + 1))
