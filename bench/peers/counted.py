"""The job of the bars that look at the worker and not at the server: it counts its runs, and notes how fast they were.

The clock runs from the run at which 5 % are done to the last one. Noted are the jobs of a second of the clock, and of a
second of the processor in this process.
"""

import itertools
import json
import os
import time
from pathlib import Path

URL = os.environ["BENCH_URL"]
COUNT = int(os.environ["BENCH_COUNT"])
THREADS = int(os.environ["BENCH_THREADS"])
FIRST = max(1, COUNT // 20)

_numbers = itertools.count(1)  # safe to share: `next` is one step
_began = (0.0, 0.0)


def noop(*args: object) -> None:
    global _began
    number = next(_numbers)
    if number == FIRST:
        _began = time.perf_counter(), time.process_time()
    elif number == COUNT:
        _note(time.perf_counter() - _began[0], time.process_time() - _began[1])


def _note(seconds: float, processor_s: float) -> None:
    done = COUNT - FIRST
    file = Path(os.environ["BENCH_RATES"])
    file.with_suffix(".new").write_text(json.dumps([done / seconds, done / processor_s]))
    file.with_suffix(".new").rename(file)
