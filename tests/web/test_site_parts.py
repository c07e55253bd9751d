"""The small parts of the pages: what is hidden, what is made visible, what is shared for a moment, how values read."""

from __future__ import annotations

import itertools
import re
import threading
import time

import pytest
from forks import ended_well, in_child
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from waiting import eventually

from goworkers_py.web.site import charts, filters
from goworkers_py.web.site.filters import NOTHING
from goworkers_py.web.site.hiding import MASK, Hiding, folded
from goworkers_py.web.site.rendering import render
from goworkers_py.web.site.showing import cut, shown, visible
from goworkers_py.web.site.snapshots import MOST_AT_ONCE, Snapshots
from goworkers_py.wire.stored_job import StoredJob

# --- hiding


def test_values_with_a_hidden_name_are_masked_however_deep() -> None:
    told = Hiding().value([{"user": {"Password": "x", "name": "ada"}, "list": [{"api_key": 1}]}, "secret"])
    assert told == [{"user": {"Password": MASK, "name": "ada"}, "list": [{"api_key": MASK}]}, "secret"]


def test_a_job_without_hidden_names_keeps_each_digit_in_json() -> None:
    job = StoredJob(b'{"class":"A","args":[1.50],"jid":"j"}')
    assert Hiding().job_as_json(job) == job.as_json


def test_a_hidden_value_is_nowhere_in_json_however_its_name_is_spelled() -> None:
    for name in ("password", "user_password", "TOKEN", "p\\u0061ssword"):
        raw = f'{{"class":"A","args":[{{"{name}":"x-1-y"}}],"jid":"j"}}'.encode()
        assert "x-1-y" not in Hiding().job_as_json(StoredJob(raw))


def test_an_unreadable_payload_with_a_hidden_name_is_not_shown() -> None:
    told = Hiding().job_as_json(StoredJob(b'{"class":"A","args":[{"password":"x-1-y"}'))
    assert "x-1-y" not in told
    assert MASK in told
    assert "abc" in Hiding().job_as_json(StoredJob(b"abc{"))


def test_no_name_is_hidden_less_than_by_a_search_that_ignores_the_case() -> None:
    """Each pair of letters that such a search takes for one is one letter folded."""
    letters = "".join(char for code in range(0x1_E945) if (char := chr(code)).lower() != char.upper())
    for letter in letters:
        for other in re.findall(re.escape(letter), letters, re.IGNORECASE):
            assert folded(letter) == folded(other), (letter, other)


@given(st.lists(st.sampled_from([*'pPaAs\u017fSßwWkKK\u0130\u0131iI\u0307\\"x', "\ud800"]), max_size=30).map("".join))
def test_every_payload_is_hidden_that_such_a_search_finds(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    names = ["passw", "ski", "I\u0307"]
    expected = re.search("|".join(names), raw.decode("utf-8", "replace"), re.IGNORECASE)
    assert Hiding(names).may_hide(raw) or not expected


def test_nothing_is_hidden_by_an_empty_list_of_names() -> None:
    assert Hiding(()).value({"password": "x"}) == {"password": "x"}


def test_a_value_in_which_nothing_is_hidden_is_not_copied() -> None:
    value = [{"name": "ada", "list": [1, []]}, "password"]
    assert Hiding().value(value) is value
    assert Hiding().value([{"token": MASK}]) == [{"token": MASK}]


def test_a_deep_value_is_cut_and_no_error() -> None:
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    assert "(too deep)" in str(Hiding().value(deep))


# --- showing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain ä 日本", "plain ä 日本"), ("a\x1b[31mred", "a\\x1b[31mred"), ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"), ("half \ud800", "half \\ud800"), ("line\nend\ttab", "line\nend\ttab"),
        ("a\u3164b\u2800\ufe0f", "a\\u3164b\\u2800\\ufe0f"), ("nul\x00", "nul\\x00"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)  # fmt: skip
def test_what_could_hide_in_a_text_is_made_visible(text: str, told: str) -> None:
    assert visible(text) == told


def test_markup_of_our_own_stays_and_numbers_stay_numbers() -> None:
    assert shown(Markup("<b>")) == "<b>"
    assert shown(3) == 3


def test_each_value_of_a_template_is_escaped_and_made_visible() -> None:
    page = render("error.html", {
        "visit": None, "status": 400, "message": "<script>\u202e", "title": "<i>", "site_title": "t", "root": "",
        "of_file": lambda name: name, "section": "", "offers": lambda path: False,
    })  # fmt: skip
    assert "&lt;script&gt;\\u202e" in page
    assert "<script>\\" not in page
    assert "&lt;i&gt;" in page


def test_a_long_text_is_cut() -> None:
    assert cut("x" * 300, 10) == "x" * 9 + "…"
    assert cut("short") == "short"


# --- numbers and times


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"), (0.25, "250 ms"), (3.25, "3.2 s"), (59, "59 s"), (3_600, "1 h"), (90_061, "1 d 1 h"),
        (3_601, "1 h"), (-120, "-2 min"), (float("inf"), NOTHING), (None, NOTHING),
    ],
)  # fmt: skip
def test_a_span_is_told_in_its_two_largest_units(seconds: float | None, told: str) -> None:
    assert filters.span(seconds) == told


def test_a_time_tells_the_exact_one_on_hover() -> None:
    told = filters.ago(time.time() - 7_200)
    assert "2 h ago" in told
    assert "UTC" in told
    assert "in 1 h" in filters.ago(time.time() + 3_625)
    assert filters.ago(1e300) == "1e+300"
    assert filters.ago(float("nan")) == NOTHING


def test_a_number_has_separators() -> None:
    assert filters.number(1_234_567) == "1,234,567"
    assert filters.number(None) == NOTHING


def test_a_size_has_a_unit_and_tells_the_exact_one_on_hover() -> None:
    assert filters.size(1_288_490_189) == '<span title="1,288,490,189 bytes">1.2 GB</span>'
    assert filters.size(None) == NOTHING


def test_a_value_without_json_is_shown_all_the_same() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert filters.compact(loop)
    assert filters.pretty({"a": {1}})


# --- charts


def test_a_chart_says_in_words_what_it_draws_and_escapes_names() -> None:
    told = charts.bars("Jobs", [charts.Bar("<11-01>", 10, 2), charts.Bar("11-02", 0)])
    assert "10 jobs from &lt;11-01&gt; to 11-02, of which 2 failed" in told
    assert "<11-01>" not in told
    assert charts.bars("Jobs", []) == ""


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (7, 8), (42, 50), (101, 200), (950, 1000), (7_900, 8_000)])
def test_an_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert charts.nice_top(most) == top


# --- snapshots


def test_a_value_is_computed_once_for_all_who_ask_at_a_time() -> None:
    snapshots, calls, gate = Snapshots(), [], threading.Event()

    def compute() -> int:
        calls.append(1)
        gate.wait(20)
        return 7

    found: list[object] = []
    askers = [
        threading.Thread(target=lambda: found.append(snapshots.get("a", 60, compute, 20).value)) for _ in range(8)
    ]
    for asker in askers:
        asker.start()
    gate.set()
    for asker in askers:
        asker.join()
    assert found == [7] * 8
    assert len(calls) == 1


def test_who_asks_does_not_wait_for_a_slow_value_but_gets_it_later() -> None:
    snapshots, gate = Snapshots(), threading.Event()

    def slow() -> int:
        gate.wait(20)
        return 7

    assert snapshots.get("a", 60, slow, 0.0).value is None
    gate.set()
    assert eventually(lambda: snapshots.get("a", 60, slow, 0.0).value == 7)


def test_an_old_value_is_shown_with_its_fault_until_it_can_be_computed_again() -> None:
    snapshots, faults = Snapshots(), [True]

    def compute() -> int:
        if faults:
            raise ValueError("away")
        return 7

    first = snapshots.get("a", 0.0, compute, 20)
    assert (first.value, str(first.error)) == (None, "away")
    faults.clear()
    assert snapshots.get("a", 0.0, compute, 20).value == 7
    faults.append(True)
    again = snapshots.get("a", 0.0, compute, 20)
    assert (again.value, str(again.error)) == (7, "away")


def test_after_a_change_a_value_is_computed_anew() -> None:
    snapshots, counted, slow = Snapshots(), iter(range(9)), iter(range(9))
    for _ in range(2):
        assert snapshots.get("a", 5, lambda: next(counted), 20).value == 0
    snapshots.get("b", 60, lambda: next(slow), 20)
    snapshots.forget()
    assert snapshots.get("a", 5, lambda: next(counted), 20).value == 1
    assert snapshots.get("b", 60, lambda: next(slow), 20).value == 0  # what takes long is not counted anew


def test_a_value_that_is_computed_quickly_is_kept_for_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goworkers_py.web.site.snapshots.SOON_S", 0.0)
    snapshots, quick, slow = Snapshots(), itertools.count(), itertools.count()

    def slowly() -> int:
        time.sleep(0.1)
        return next(slow)

    assert eventually(lambda: snapshots.get("quick", 60, lambda: next(quick), 20).value)
    assert [snapshots.get("slow", 60, slowly, 20).value for _ in range(2)] == [0, 0]


def test_after_a_change_no_value_is_shown_whose_computation_had_begun_before() -> None:
    snapshots, counted, began, go_on = Snapshots(), [1], threading.Event(), threading.Event()

    def compute() -> int:
        count = counted[0]
        began.set()
        go_on.wait(20)
        return count

    assert snapshots.get("a", 5, compute, 0.0).value is None
    assert began.wait(20)
    counted[0] = 2
    snapshots.forget()
    threading.Timer(0.1, go_on.set).start()
    assert snapshots.get("a", 5, compute, 20).value == 2


def test_names_that_people_type_do_not_start_any_number_of_threads() -> None:
    snapshots, go_on = Snapshots(), threading.Event()
    for number in range(200):
        snapshots.get(str(number), 60, lambda: go_on.wait(20), 0.0)
    assert sum(thread.name.startswith("pages:") for thread in threading.enumerate()) <= MOST_AT_ONCE
    go_on.set()
    assert eventually(lambda: snapshots.get("later", 60, lambda: 7, 20).value == 7)


def test_a_value_is_computed_after_a_thread_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    snapshots = Snapshots()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            snapshots.get("a", 60, lambda: 7, 0.1)
    assert snapshots.get("a", 60, lambda: 7, 20).value == 7


def test_names_that_people_type_do_not_fill_the_memory() -> None:
    snapshots = Snapshots()
    for number in range(1_200):
        snapshots.get(str(number), 60, lambda: 1, 20)
    assert len(snapshots._known) <= 500


def test_a_forked_process_computes_its_own_values() -> None:
    snapshots = Snapshots()
    snapshots.get("a", 60, lambda: "parent", 20)

    def of_child() -> None:
        assert snapshots.get("a", 60, lambda: "child", 20).value == "child"

    assert ended_well(in_child(of_child))
