"""A program may add to every record of logging, by `logging.setLogRecordFactory`: to ours too."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from apps import job

from goworkers_py.core.outcome import DONE
from goworkers_py.links.log import log_runs
from goworkers_py.observe.log_format import JsonFormatter, PlainFormatter, log_with_stack
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

LOG = logging.getLogger("goworkers_py.job")


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, level = Lines(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler
    LOG.setLevel(level)
    LOG.removeHandler(handler)


@pytest.fixture
def factory() -> Iterator[None]:
    before = logging.getLogRecordFactory()

    def made(*arguments: Any, **options: Any) -> logging.LogRecord:
        record = before(*arguments, **options)
        record.request = "r 1"
        return record

    logging.setLogRecordFactory(made)
    yield
    logging.setLogRecordFactory(before)


def of_a_run() -> None:
    log_runs(Registry())(lambda message: DONE)(Message(job(), "q"))


def of_a_stack() -> None:
    log_with_stack(LOG, logging.WARNING, "File a\n  b()", "stuck: %s", "here")


@pytest.mark.usefixtures("factory")
@pytest.mark.parametrize(("say", "texts"), [(of_a_run, ["start", "done"]), (of_a_stack, ["stuck: here"])])
def test_records_are_made_by_the_programs_factory(lines: Lines, say: Callable[[], None], texts: list[str]) -> None:
    say()
    assert [record.getMessage() for record in lines.records] == texts
    for record in lines.records:
        assert vars(record)["request"] == "r 1"
        assert ' request="r 1"' in PlainFormatter().format(record)
        assert '"request": "r 1"' in JsonFormatter().format(record)


def test_a_run_is_told_in_records_like_all_others(lines: Lines) -> None:
    of_a_run()
    made = logging.LogRecord("goworkers_py.job", logging.INFO, lines.records[0].pathname, 0, "start", (), None)
    assert vars(lines.records[0]).keys() - {"message"} == vars(made).keys()  # which formatters leave there
    for name in ("processName", "threadName", "thread", "process", "levelname", "module"):
        assert getattr(lines.records[0], name) == getattr(made, name)
    began = [record.created - record.relativeCreated / 1000 for record in (*lines.records, made)]  # the program
    assert max(began) - min(began) < 0.01
    assert vars(lines.records[1])["elapsed"] >= 0


BEFORE_THE_IMPORT = """
import logging, sys

class Record(logging.LogRecord):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.request = "r1"

logging.setLogRecordFactory(Record)
from goworkers_py.observe.log_format import PlainFormatter
print(PlainFormatter().format(logging.getLogger("app").makeRecord("app", 20, "", 0, "hello", (), None)))
"""


def test_what_a_factory_adds_is_shown_also_when_the_program_set_it_first() -> None:
    done = subprocess.run([sys.executable, "-c", BEFORE_THE_IMPORT], capture_output=True, text=True, check=True)
    assert " MainThread request=r1 INFO: hello" in done.stdout
