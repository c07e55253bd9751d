from __future__ import annotations

import sys
import threading

from goworkers_py.observe.counters import Counters


def test_counters_count_what_is_added() -> None:
    counters = Counters()
    counters.add("processed")
    counters.add("processed", 4)
    counters.add("failed", 0)
    assert counters.snapshot() == {"processed": 5, "failed": 0}


def test_a_snapshot_of_the_counters_does_not_change() -> None:
    counters = Counters()
    before = counters.snapshot()
    counters.add("processed")
    assert before == {}


def test_no_count_is_lost_between_threads() -> None:
    counters = Counters()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [counters.add("processed") for _ in range(5_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert counters.snapshot() == {"processed": 20_000}
