"""The order of the rungs around a run."""

from __future__ import annotations

from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.features import RUNGS
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import Rung, Rungs
from goworkers_py.wire.message import Message

MARK = frozenset({"here"})


def noting(name: str, called: list[str]) -> Rung:
    def wrap(run: Run, waits: bool) -> Run:
        def noted(message: Message) -> Outcome:
            called.append(name)
            return run(message)

        return noted

    return Rung(wrap, marks=MARK)


def test_a_rung_that_has_no_place_in_the_list_stands_behind_the_quarantine_and_before_the_lock() -> None:
    called: list[str] = []

    def done(message: Message) -> Outcome:
        return DONE

    names = ("region", "lock", "limits", "quarantine")
    rungs = Rungs({name: noting(name, called) for name in names}, RUNGS, done, {})
    assert rungs.run_of(MARK)(Message(b'{"class":"J","args":[],"jid":"j"}', "q")) is DONE
    assert called == ["quarantine", "region", "lock", "limits"]


def test_a_job_in_whose_place_other_code_runs_passes_the_rungs_that_are_for_such_jobs() -> None:
    called: list[str] = []

    def never(message: Message) -> Outcome:
        raise AssertionError("the code of the job ran")

    def done(message: Message) -> Outcome:
        called.append("other code")
        return DONE

    by_name = {
        "expiry": noting("expiry", called),
        "limits": noting("limits", called)._replace(of_stand_ins=False),
    }
    rungs = Rungs(by_name, RUNGS, never, {"other": done})
    assert rungs.run_of(MARK | {"other"})(Message(b'{"class":"J","args":[],"jid":"j"}', "q")) is DONE
    assert called == ["expiry", "other code"]
