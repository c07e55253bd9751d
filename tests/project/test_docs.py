"""Checks README, docs, conf and examples: commands exist and run, code runs, samples load, links have targets."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from calls import Call
from pages import (
    ALL_PAGES,
    EXAMPLES,
    PAGES,
    README,
    ROOT,
    blocks_of,
    needs,
    reader,
    ruby_has_sidekiq,
    terminal,
    without_blocks,
    write_files_of,
)
from servers import RedisServer, do_without
from waiting import eventually

import goworkers_py
from goworkers_py.brokers.redis.server.embedded_server import find_server
from goworkers_py.config.loader import load
from goworkers_py.config.options import Config, MiddlewareConfig, PoolConfig, QueueConfig, help_of, options_of
from goworkers_py.core.errors import ConfigError

BENCHMARKS = ROOT / "docs/benchmarks.md"
SAMPLES = sorted((ROOT / "conf").glob("*.ini"))
SAMPLE = ROOT / "conf/pyworkers.ini"

STOP_S = 30


# --- commands, code and links of the pages


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_links_have_targets(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if not link.startswith("http"):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


# --- how a page is written


OF_THE_SITE = [README, *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", OF_THE_SITE, ids=lambda page: page.name)
def test_a_page_begins_with_its_gist_in_three_short_sentences(page: Path) -> None:
    _, _, text = re.sub(r"^<!--.*-->\n+", "", page.read_text("utf-8")).partition("\n\n")
    first = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", text.partition("\n\n")[0])
    assert re.match(r"\**[`\w]", first), "a table, a list or a block"
    sentences = re.split(r"(?<=[.!?])\s+", first)
    assert len(sentences) <= 3
    assert [sentence for sentence in sentences if len(sentence.split()) > 25] == []


@pytest.mark.parametrize("page", OF_THE_SITE, ids=lambda page: page.name)
def test_the_windows_of_a_page_come_last(page: Path) -> None:
    """Where its guarantee does not hold, and what happens then."""
    sections = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert [section for section in sections[:-1] if "windows" in section.lower()] == []


# --- the site: `make docs` holds the rest, with Sphinx


def test_every_page_stands_once_in_the_navigation() -> None:
    """docs/index.md is the navigation of the site and of a code host. Each page is a line of its lists."""
    index = ROOT / "docs/index.md"
    listed = re.findall(r"^ *- \[.+?\]\((.+?)\)", index.read_text("utf-8"), re.MULTILINE)
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page != index]
    pages += [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    wanted = sorted(os.path.relpath(page, index.parent) for page in pages)
    assert sorted(listed) == wanted, "each page has one line in docs/index.md"


def test_a_page_of_a_need_and_the_pages_of_its_features_link_to_each_other() -> None:
    """By the lists of docs/index.md: somebody who opened the wrong feature finds the page that compares them."""
    docs = ROOT / "docs"
    needs = (docs / "index.md").read_text("utf-8").partition("## By need\n")[2].partition("\n## ")[0]
    pairs, need = [], ""
    for indent, page in re.findall(r"^( *)- \[.+?\]\((.+?)\)", needs, re.MULTILINE):
        if not indent:
            need = page
        else:
            pairs += [(need, page), (page, need)]
    assert len(pairs) > 20
    assert [(page, to) for page, to in pairs if f"]({to}" not in (docs / page).read_text("utf-8")] == []


# --- the quick start and the commands of the pages, run as written


def test_readme_is_short() -> None:
    """It is for somebody who decides in a minute. Each table has a page of its own."""
    assert len(README.read_text("utf-8").splitlines()) <= 130


def test_readme_tells_the_figures_of_the_benchmarks() -> None:
    """To two digits: the third is noise."""
    text, table = README.read_text("utf-8"), BENCHMARKS.read_text("utf-8")
    told = re.search(
        r"([\d,]+) empty jobs a second on two cores; Sidekiq 6.4 ran ([\d,]+) there, Celery ([\d,]+)", text
    )
    assert told is not None
    for system, figure in zip(("goworkers-py", "sidekiq 6.4", "celery"), told.groups(), strict=True):
        measured = re.search(rf"^\| \**{system}[^|]*\| \**([\d,]+)", table, re.MULTILINE)
        assert measured is not None, system
        assert float(figure.replace(",", "")) == float(f"{int(measured[1].replace(',', '')):.1e}"), system


@pytest.mark.parametrize("server", ["a server", "the embedded one"])
def test_quick_start_runs_as_it_stands(server: str, redis_url: str, tmp_path: Path) -> None:
    """Each terminal gets only the commands and variables that the page shows for it."""
    blocks = blocks_of(README)
    lines = [line for block in blocks if block.language == "sh" for line in block.commands]
    _venv, activate, _install, choice, worker, activate_again, choice_again, *producers = lines
    assert (worker, activate_again, choice_again) == ("pyworkers run -r jobs", activate, choice)
    of_ruby = producers.pop()
    assert of_ruby.startswith("REDIS_URL=unix:")
    orders = [41, 42, 43]
    write_files_of(README, tmp_path)
    if server == "a server":
        terminal = reader(redis_url)
    else:
        _needs_embedded_server()
        terminal = _after(choice, tmp_path)
        if ruby_has_sidekiq():
            producers.append(of_ruby)
            orders.append(44)
    with _daemon(worker, tmp_path, tmp_path / "log", terminal) as log:
        for line in producers:
            _run(line, tmp_path, terminal)
        for order in orders:
            _await(log, f"invoice for order {order}, ")
    [shown] = [block.text for block in blocks if block.language == "text"]
    assert shown.splitlines()[1] in log.read_text("utf-8").splitlines()


@pytest.mark.interop
@pytest.mark.timeout(300)  # it compiles
def test_the_program_of_go_in_the_readme_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    needs("go")
    [program] = [block.text for block in blocks_of(README) if block.language == "go"]
    assert '"localhost:6379"' in program
    for file in ("go.mod", "go.sum"):
        shutil.copy(EXAMPLES / "go" / file, tmp_path)
    env = reader(own_redis.url)
    (tmp_path / "main.go").write_text(program.replace("localhost:6379", env["REDIS_ADDR"]), "utf-8")
    write_files_of(README, tmp_path)
    with _daemon("pyworkers run -r jobs", tmp_path, tmp_path / "log", env) as log:
        _run("go run .", tmp_path, env)
        _await(log, "invoice for order 45, {'pdf': True}")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=lambda page: page.name)
def test_commands_of_docs_run(page: Path, redis_url: str, tmp_path: Path) -> None:
    lines = [line for block in blocks_of(page) if block.language == "sh" for line in block.commands]
    if any("embedded" in line for line in lines):
        _needs_embedded_server()
    (tmp_path / "jobs.py").write_text("import goworkers_py\n\ngoworkers_py.job(print)\n")  # the reader's
    write_files_of(page, tmp_path)
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    partitions = {name for block in blocks_of(page) for name in re.findall(r"^\[partition:(\w+)\]", block.text, re.M)}
    brokers = {f"PYWORKERS_PARTITION_{name.upper()}_BROKER": redis_url for name in partitions}
    for line in lines:
        if line.startswith("pyworkers run"):
            with _daemon(line, tmp_path, tmp_path / "log", reader(redis_url) | brokers):
                pass
        else:
            _run(line, tmp_path, reader(redis_url) | brokers)


def test_commands_of_operations_answer_as_shown(redis_url: str, redis: redis_py.Redis, here: Path, call: Call) -> None:
    """Runs each line that begins with $, in order, beside a worker, and compares the first line of its output."""
    page = ROOT / "docs/operations.md"
    blocks = blocks_of(page)
    [scene] = [block.commands for block in blocks if block.language == "sh"]
    shown = re.findall(r"^\$ pyworkers (.+)\n(.+)$", "".join(block.text for block in blocks), re.MULTILINE)
    write_files_of(page, here)

    def answer(line: str) -> str:
        done = call(*shlex.split(line), PYWORKERS_BROKER=redis_url, PYWORKERS_CONFIG="conf.ini")
        assert done.returncode == 0 or (line == "doctor" and done.returncode == 1), f"{line}: {done.stderr}"
        return done.stdout

    for line in scene[:-1]:
        answer(line.removeprefix("pyworkers "))
    with _daemon(f"{scene[-1]} --timeout 0", here, here / "log", reader(redis_url)):
        assert eventually(lambda: redis.zcard("retry") == 2 and redis.zcard("dead") == 1)
        [dead] = redis.zrange("dead", 0, -1)
        for line, first in shown:
            told = answer(re.sub(r"\b[0-9a-f]{24}\b", json.loads(dead)["jid"], line))
            if line != "doctor" and not re.search(r"\d", first):
                assert told.splitlines()[0].split() == first.split(), line


@pytest.mark.parametrize(
    ("program", "jobs"),
    [
        ("python", 7),
        pytest.param("ruby", 4, marks=pytest.mark.interop),
        pytest.param("go", 3, marks=[pytest.mark.interop, pytest.mark.timeout(300)]),  # it compiles
    ],
)
def test_examples_run(program: str, jobs: int, own_redis: RedisServer, tmp_path: Path) -> None:
    """Each producer of examples/README.md, with the worker beside it, until the last of its jobs has run."""
    worker, producers = (block.commands for block in blocks_of(EXAMPLES / "README.md"))
    lines = [line for line in producers if line.split("&& ")[1].startswith(f"{program} ")]
    needs(program)
    if program == "ruby" and not ruby_has_sidekiq():
        do_without("Ruby has no sidekiq")
    client = own_redis.client()
    with _daemon(worker[0], EXAMPLES / "python", tmp_path / "log", reader(own_redis.url)) as log:
        for number, line in enumerate(lines, 1):
            _run(line, EXAMPLES, reader(own_redis.url))
            done = number * jobs
            assert eventually(lambda: int(client.get("stat:processed") or 0) == done), log.read_text("utf-8")  # noqa: B023
    assert lines
    assert client.get("stat:failed") is None


def test_the_example_of_typed_arguments_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r orders", EXAMPLES / "python", tmp_path / "log", env) as log:
        _run("python orders.py", EXAMPLES / "python", env)
        _await(log, "2 lines for 17.00 go by BIKE until 2030-01-31")
        _await(log, "1 lines for 4.90 go by POST until None")
        _await(log, "thank you, Ada, for the order of ")


def test_the_example_of_unique_jobs_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r sync", EXAMPLES / "python", tmp_path / "log", env) as log:
        said = _run("python sync.py", EXAMPLES / "python", env)
        _await(log, "indexed page home: last draft")
        _await(log, "synced account 7")
    assert "holds the lock sync_account:" in said
    assert "first draft" not in log.read_text("utf-8")
    assert "from the beginning" not in log.read_text("utf-8")


def test_the_example_of_limits_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r payments", EXAMPLES / "python", tmp_path / "log", env) as log:
        said = _run("python payments.py", EXAMPLES / "python", env)
        for account in range(6):
            _await(log, f"charged account {account}")
            _await(log, f"mailed account {account}")
        _await(log, "order 7: sent")
    told = log.read_text("utf-8")
    assert told.index("order 7: paid") < told.index("order 7: packed") < told.index("order 7: sent")
    assert said == "a block of code had a place\n"


def test_the_example_of_a_chain_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r pages", EXAMPLES / "python", tmp_path / "log", env) as log:
        cid = _run("python pages.py", EXAMPLES / "python", env).strip()
        _await(log, "the words were found [1, 2, 3] times")
        assert cid in _run("pyworkers chains list", EXAMPLES / "python", env)


def test_the_example_of_priorities_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r mailing -q mailing=1", EXAMPLES / "python", tmp_path / "log", env) as log:
        said = _run("python mailing.py", EXAMPLES / "python", env)
        _await(log, "a code for ada")
        _await(log, "newsletter 4711")
        _await(log, "newsletter 99")
        _await(log, "cleaned up")
    assert {"mailing", "mailing@high", "mailing@low"} <= set(said.split())


def test_the_example_of_periodic_jobs_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r periodic", EXAMPLES / "python", tmp_path / "log", env) as log:
        _await(log, "checked")
        assert _run("python periodic.py", EXAMPLES / "python", env) == "True\n"
        _await(log, "periodic job nightly report: pushed job")
        _await(log, "the report of 20")
        _await(log, "periodic job check: not pushed: the job of an earlier slot holds its lock")
        assert "nightly report" in _run("pyworkers periodic list", EXAMPLES / "python", env)
    assert own_redis.client().get("stat:failed") is None


def test_the_example_of_a_batch_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r exports", EXAMPLES / "python", tmp_path / "log", env) as log:
        bid = _run("python exports.py", EXAMPLES / "python", env).strip()
        _await(log, "nightly exports: 10 of 10 jobs have succeeded")
        assert bid in _run("pyworkers batches list", EXAMPLES / "python", env)


def test_the_example_of_a_delay_queue_runs(own_redis: RedisServer) -> None:
    said = _run("python reminders.py", EXAMPLES / "python", reader(own_redis.url))
    assert said.splitlines() == ["reminding ada: tea is ready", "reminding bob: call ada"]


def test_the_example_of_groups_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r digest", EXAMPLES / "python", tmp_path / "log", env) as log:
        _run("python digest.py", EXAMPLES / "python", env)
        _await(log, "mailed ada: a comment, a like, a follower")
        _await(log, "mailed ada: a reply")
        _await(log, "mailed bob: a like")


def test_the_example_of_results_and_cancels_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r reports", EXAMPLES / "python", tmp_path / "log", env) as log:
        said = _run("python reports.py", EXAMPLES / "python", env)
        _await(log, "watch_for_ever was cancelled")
    assert said.splitlines()[0] == "{'year': 2026, 'pages': 40}"
    assert said.splitlines()[-1] == "cancelled"


def test_the_example_of_dead_jobs_that_are_corrected_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r cleanup", EXAMPLES / "python", tmp_path / "log", env) as log:
        said = _run("python cleanup.py", EXAMPLES / "python", env)
        _await(log, "loaded GB")
    assert said.splitlines() == ["1 load UK is not the code of a country: it is GB", "1 deleted"]
    assert own_redis.client().zcard("dead") == 0


def test_the_example_of_jobs_that_expire_runs(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r alerts", EXAMPLES / "python", tmp_path / "log", env) as log:
        _run("python alerts.py", EXAMPLES / "python", env)
        _await(log, "code 4711 for +49 30 1 of acme")
        _await(log, "send_code came too late, it was for +49 30 2")
        _await(log, "rescheduled: to run again in ")
        _await(log, "called +49 30 3")
    assert own_redis.client().get("stat:failed") is None


def test_the_example_of_an_iterable_job_goes_on_after_its_time_slice(own_redis: RedisServer, tmp_path: Path) -> None:
    env = reader(own_redis.url)
    with _daemon("pyworkers run -r reindex", EXAMPLES / "python", tmp_path / "log", env) as log:
        _run("python reindex.py", EXAMPLES / "python", env)
        _await(log, "going on with example.org after page ")
        _await(log, "all pages of example.org are indexed")
        _await(log, "all pages of example.net are indexed")
    assert own_redis.client().get("stat:failed") is None


def _run(line: str, folder: Path, env: dict[str, str]) -> str:
    for_shell = not re.fullmatch(r"""(?!\w+=)[\w ./:='"-]*""", line)
    words = line if for_shell else shlex.split(line)
    done = subprocess.run(words, shell=for_shell, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def _after(line: str, folder: Path) -> dict[str, str]:
    """The environment of a terminal after this line was typed, without any other variable for a server."""
    told = subprocess.run(f"{line}; env -0", shell=True, cwd=folder, env=terminal(), capture_output=True, text=True)
    return dict(variable.split("=", 1) for variable in told.stdout.split("\0") if variable)


@contextmanager
def _daemon(line: str, folder: Path, log: Path, env: dict[str, str]) -> Iterator[Path]:
    """Runs the command until the end of the block, with its output in `log`. It must exit with 0 after TERM."""
    with log.open("w") as output:
        process = subprocess.Popen(shlex.split(line), cwd=folder, env=env, stdout=output, stderr=output)
    try:
        _await(log, "; stop it with TERM")
        yield log
    finally:
        process.terminate()
        try:
            code = process.wait(STOP_S)
        finally:
            process.kill()
    assert code == 0, log.read_text("utf-8")


def _await(log: Path, text: str) -> None:
    assert eventually(lambda: text in log.read_text("utf-8")), log.read_text("utf-8")


def _needs_embedded_server() -> None:
    try:
        find_server()
    except ConfigError as error:
        do_without(str(error))


# --- the samples and the reference


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_sample_loads(sample: Path) -> None:
    load(sample, environment={})


def test_sample_gives_every_option_its_default() -> None:
    assert load(SAMPLE, environment={}) == Config(queues=(QueueConfig(name="default"),))


@pytest.mark.parametrize("table", [Config, QueueConfig, MiddlewareConfig])
def test_sample_shows_every_option_below_its_help(table: type) -> None:
    text = SAMPLE.read_text("utf-8")
    for name, row in options_of(table).items():
        assert f"\n; {help_of(row)}\n{name} =" in text


def test_sample_shows_a_pool_as_a_comment_that_may_be_taken_out(tmp_path: Path) -> None:
    text = SAMPLE.read_text("utf-8")
    pool = re.search(r"; \[pool:web\]\n(; .*\n)+", text)
    assert pool is not None
    for row in options_of(PoolConfig).values():
        assert f"\n; {help_of(row)}\n; {row.name} =" in pool[0]
    settings = [line for line in pool[0].replace("; ", "").splitlines() if re.match(r"\[|\w+ =", line)]
    (tmp_path / "pool.ini").write_text("\n".join(settings).replace("weights =", ""))
    assert load(tmp_path / "pool.ini", {}).pools == (PoolConfig("web", ("critical", "default", "low")),)


# --- names


def test_python_that_is_shown_uses_public_names_only() -> None:
    for block in itertools.chain.from_iterable(map(blocks_of, PAGES)):
        if block.language == "python":
            used = set(re.findall(r"\bworkers\.([a-zA-Z_]\w*)", block.text))
            assert used <= set(goworkers_py.__all__), str(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_within_a_sentence_are_public_too(page: Path) -> None:
    spans = re.findall(r"`([^`\n]+)`", without_blocks(page))
    used = {name for span in spans for name in re.findall(r"(?<![-\w])workers\.(\w+)", span)}
    of_go = {"Enqueue"}
    assert used <= set(goworkers_py.__all__) | of_go
