"""Runs each block of code on the pages, by its language."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from apps import own_app
from calls import Call
from pages import ALL_PAGES, PAGES, ROOT, Block, blocks_of, needs, reader, write_files_of
from servers import do_without

from goworkers_py.cli import main
from goworkers_py.config.loader import load
from goworkers_py.config.web_options import WebConfig
from goworkers_py.web.port import open_port

BLOCKS = [block for page in ALL_PAGES for block in blocks_of(page)]

# Tests below run the first ones. Nothing can be run of the others: what is printed, settings of other programs, and
# `pyi`: signatures and docstrings, which `make reference` takes from the source.
RUN = {"python", "ini", "sh", "console", "ruby", "json"}
NOT_RUN = {"text", "systemd", "logrotate", "nginx", "promql", "pyi"}

# These blocks are run by a test of their own, which has what they need.
DOCS, TUTORIALS, CLUSTER = "project/test_docs.py", "project/test_tutorials.py", "integration/test_cluster.py"
OWN_TESTS = {
    ("README.md", "go"): DOCS,
    ("README.md", "ruby"): DOCS,
    ("http-api.md", "console"): "project/test_code_blocks.py",
    ("http-api.md", "go"): "project/test_code_blocks.py",
    ("http-api.md", "ruby"): "project/test_code_blocks.py",
    ("job-states.md", "ruby"): "features/tracking/test_interop.py",
    ("operations.md", "console"): DOCS,
    ("redis-cluster.md", "go"): CLUSTER,
    ("redis-cluster.md", "ruby"): CLUSTER,
    ("start-go.md", "go"): TUTORIALS,
    ("start-go.md", "console"): TUTORIALS,
    ("start-python.md", "console"): TUTORIALS,
    ("start-rails.md", "ruby"): TUTORIALS,
    ("start-rails.md", "console"): TUTORIALS,
    ("writing-a-broker.md", "python"): "project/test_dir_broker_page.py",
}

# They do not end by themselves, or ask somebody.
STAYS = {"run", "web", "start", "top", "supervise"}

# What the reader's own application has, of which a page shows a part.
APPLICATION = """
require "date"
require "sidekiq"
Sidekiq.logger.level = Logger::FATAL
module Billing; class InvoiceJob; include Sidekiq::Worker; end; end
module Sms; class CodeJob; include Sidekiq::Worker; end; end
"""


def _written_in(*languages: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language in languages and _key(block) not in OWN_TESTS]
    return pytest.mark.parametrize("block", chosen, ids=str)


def _key(block: Block) -> tuple[str, str]:
    return block.page.name, block.language


def test_each_block_names_a_language_that_is_run_or_cannot_be() -> None:
    known = [block for block in BLOCKS if block.language in RUN | NOT_RUN or _key(block) in OWN_TESTS]
    assert {str(block): block.language for block in BLOCKS if block not in known} == {}


def test_a_block_that_is_left_to_another_test_is_there_and_that_test_reads_its_page() -> None:
    assert set(OWN_TESTS) <= set(map(_key, BLOCKS))
    for (page, _), test in OWN_TESTS.items():
        text = (ROOT / "tests" / test).read_text("utf-8")
        assert page in text or (page == "README.md" and "README" in text)


@_written_in("python")
def test_python_that_is_shown_runs(block: Block, redis_url: str, tmp_path: Path) -> None:
    write_files_of(block.page, tmp_path)
    words = [sys.executable, "-c", block.text]
    done = subprocess.run(words, cwd=tmp_path, env=reader(redis_url), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@_written_in("ini")
def test_configuration_that_is_shown_loads(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "conf.ini"
    file.write_text(block.text, "utf-8")
    load(file, environment={})


@_written_in("json")
def test_json_that_is_shown_can_be_read(block: Block) -> None:
    assert json.loads(block.text)


# --- commands. Those of `sh` blocks are run by test_docs.py


@_written_in("sh", "console")
def test_every_command_of_ours_that_is_shown_exists(block: Block) -> None:
    for line in block.commands if block.language == "sh" else _typed(block):
        for words in _words(line):
            _assert_exists(words)


@_written_in("console")
def test_each_command_of_a_session_is_answered_in_one_line_or_well(
    block: Block, redis_url: str, here: Path, call: Call
) -> None:
    """The jobs of the session are not there: the command may say so. It must not be misused, and not crash."""
    write_files_of(block.page, here)
    for line in _typed(block):
        program, *arguments = shlex.split(line, comments=True)
        if program == "pyworkers" and arguments[0] not in STAYS and "--follow" not in arguments:
            done = call(*_before_the_shell(arguments), PYWORKERS_BROKER=redis_url)
            assert done.returncode in (0, 1), done.stderr
            assert "Traceback" not in done.stderr


def _typed(block: Block) -> list[str]:
    """What is typed in a session, by a user after `$`, by root after `#`. A line may go on after a backslash."""
    text = block.text.replace("\\\n", " ")
    return re.findall(r"^[$#] (.+)$", text, re.MULTILINE)


def _words(line: str) -> Iterator[list[str]]:
    """The words of each command in the line."""
    for command in re.split(r"&&|\|", line):
        yield shlex.split(command, comments=True)


def _before_the_shell(words: list[str]) -> list[str]:
    return list(itertools.takewhile(lambda word: word not in (">", ">>", "2>", "|", "&"), words))


def _assert_exists(words: list[str]) -> None:
    program, *arguments = itertools.dropwhile(lambda word: re.match(r"\w+=", word), words)
    arguments = _before_the_shell(arguments)
    if program == "pyworkers":
        _assert_parses(arguments)
    elif program == "make":
        targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
        assert {word for word in arguments if "=" not in word} <= targets
    elif program == ".venv/bin/python":
        assert arguments[:2] == ["-m", "pytest"] or os.access(ROOT / arguments[0], os.X_OK)
    else:
        assert "worker" not in program, f"{program} is no program of ours"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_pyworkers_command_in_the_text_exists(page: Path) -> None:
    for words in map(shlex.split, re.findall(r"`pyworkers ([a-z][^`>]*)[`>]", page.read_text("utf-8"))):
        if words != ["completion", "SHELL"]:
            _assert_parses(words, whole=False)


def _assert_parses(arguments: list[str], whole: bool = True) -> None:
    """Fails unless the command and its options exist. Runs nothing. One that is not `whole` may have no arguments: the
    text names it, such as `queue clear`."""
    command: click.Command = main
    context = click.Context(main, **main.context_settings)
    words = list(arguments)
    while words and not words[0].startswith("-") and isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    if whole or words:
        command.make_context(command.name, words, parent=context)


# --- programs of other languages


@_written_in("ruby")
@pytest.mark.interop
def test_ruby_that_is_shown_runs(block: Block, redis_url: str) -> None:
    _run_ruby(APPLICATION + block.text, reader(redis_url))


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["console", "go", "ruby"])
def test_the_programs_of_the_http_api_push_a_job(language: str, redis_url: str, tmp_path: Path) -> None:
    pushing = [block for block in blocks_of(ROOT / "docs/http-api.md") if block.language == language]
    if language == "console":
        pushing = [block for block in pushing if "curl" in block.text]
    assert pushing
    with own_app(redis_url) as app:
        port = open_port(app, replace(WebConfig(), port=0))
        address, _, token = port.address.partition("/?token=")
        env = reader(redis_url) | {"TOKEN": token}
        try:
            for block in pushing:
                text = block.text.replace("http://127.0.0.1:8080", address)
                if language == "ruby":
                    jid = _run_ruby(text, env)
                elif language == "go":
                    jid = _run_go(text, tmp_path, env)
                else:
                    needs("curl")
                    [line] = [line for line in _typed(replace(block, text=text)) if line.startswith("curl")]
                    told = subprocess.run(line, shell=True, env=env, capture_output=True, text=True, check=True)
                    jid = json.loads(told.stdout)["jid"]
                assert list(app.inspector.find(jid.strip()))
        finally:
            port.stop()


def _run_ruby(program: str, env: dict[str, str]) -> str:
    needs("ruby")
    done = subprocess.run(["ruby"], input=program, env=env, capture_output=True, text=True)
    if "cannot load such file -- sidekiq" in done.stderr:
        do_without("Ruby has no sidekiq")
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run_go(program: str, folder: Path, env: dict[str, str]) -> str:
    needs("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "tests/integration/interop/go" / name, folder)
    (folder / "main.go").write_text(program)
    done = subprocess.run(["go", "run", "."], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
