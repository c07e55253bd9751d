"""Central configurations: texts in the broker that change how much running processes do, and nothing else.

Everybody who may write to the broker could write such a text. So it holds only options whose row in the table says
`central`: queues, threads, weights, limits, intervals and the log level. All other options are local, those of later
releases too: they come from a file, the environment and flags where the process runs. `push` refuses them, and a
process ignores them. The options of the text override those of the local file, and environment and flags override both.
"""

from __future__ import annotations

import configparser
import dataclasses
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from goworkers_py.config.feature_options import feature_sections
from goworkers_py.config.ini_file import ConfigText, kind_and_name, read
from goworkers_py.config.loader import WriteOver, parsed
from goworkers_py.config.options import (
    SECTION,
    Config,
    PartitionConfig,
    PoolConfig,
    QueueConfig,
    options_by_any_name,
)
from goworkers_py.config.partitions import of_partitions
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.escaping import one_line
from goworkers_py.features.configuration.stored_config import LONGEST

# In one process, of all queues and pools of a text together. A slip or a stranger must not fill a machine's memory.
MOST_THREADS = 1_000
# ConfigParser takes the square of the blanks in a row and of the lines that it cannot read. The longest text could keep
# it busy for half an hour, and all threads of a process, because a regular expression lets no other thread run.
MOST_LINES = 5_000
_many_blanks = re.compile(r"\S[^\S\n]{100}").search
_MOST_NAMED = 20  # in a log line


@cache
def _kinds() -> dict[str, dict[str, dataclasses.Field[Any]]]:
    """The options by the kind of their sections, without kinds that are local as a whole."""
    of_features = {kind: options_by_any_name(table) for kind, table in feature_sections().items()}
    return {
        SECTION: options_by_any_name(Config),
        "queue": options_by_any_name(QueueConfig),
        "pool": options_by_any_name(PoolConfig),
        "partition": {**options_by_any_name(PartitionConfig), **of_partitions()},
        **{kind: rows for kind, rows in of_features.items() if any(row.metadata["central"] for row in rows.values())},
    }


def check_form(stored: ConfigText) -> None:
    """Raises ConfigError for a text that nobody could parse in a short time, or no broker could hold."""
    if len(stored.text) > LONGEST:
        raise ConfigError(f"{stored} has more than {LONGEST:,} characters")
    if stored.text.count("\n") > MOST_LINES:
        raise ConfigError(f"{stored} has more than {MOST_LINES:,} lines")
    if found := _many_blanks(stored.text):
        line = stored.text.count("\n", 0, found.start()) + 1
        raise ConfigError(f"{stored}: line {line} has 100 blanks in a row: leave some out")
    try:
        stored.text.encode()
    except UnicodeEncodeError as error:
        line = stored.text.count("\n", 0, error.start) + 1
        raise ConfigError(f"{stored}: line {line} has half a character, which no name can have") from None


def _central_part(stored: ConfigText) -> configparser.ConfigParser:
    """The text without its local options."""
    check_form(stored)
    parser = read(stored)
    for section, name in _local(parser):
        parser.remove_option(section, name)
    for section in parser.sections():
        if _rows_of(section) is None:
            parser.remove_section(section)
    return parser


def _rows_of(section: str) -> dict[str, dataclasses.Field[Any]] | None:
    """None for a section that is local as a whole, or none of ours."""
    kind, colon, _ = section.partition(":")
    return _kinds().get(kind) if bool(colon) == (kind != SECTION) else None


def _local(parser: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    """The section and the name of each local option. The name is empty for a local section without options."""
    for section in parser.sections():
        rows, names = _rows_of(section), [*parser[section]]
        if rows is None and not names:
            yield section, ""
        for name in names:
            if rows is None or name not in rows or not rows[name].metadata["central"]:
                yield section, name


def _write_over(local: configparser.ConfigParser, stored: configparser.ConfigParser) -> None:
    """Writes the options of `stored` over those of `local`."""
    known = {kind_and_name(section): section for section in local.sections()}
    for section in stored.sections():
        own = known.get(kind_and_name(section), section)
        if not local.has_section(own):
            local.add_section(own)
        if {"order", "weights"} & set(stored[section]):  # one excludes the other
            local.remove_option(own, "order")
            local.remove_option(own, "weights")
        for name, value in stored[section].items():
            local.set(own, name, value)


def written_over(central: ConfigText) -> WriteOver:
    """Writes the central options of a text over those of a file."""

    def over(file: configparser.ConfigParser, where: str) -> str:
        stored = _central_part(central)
        _check_threads_of(parsed(stored, str(central), {}, {}), str(central))
        _write_over(file, stored)
        return f"{where} with {central}" if where else str(central)

    return over


def _check_threads_of(config: Config, where: str) -> None:
    pools = [*config.pools, *(pool for partition in config.partitions for pool in partition.pools)]
    shared = {queue for pool in pools for queue in pool.queues}
    queues = [*config.queues, *(queue for partition in config.partitions for queue in partition.queues)]
    threads = sum(pool.concurrency for pool in pools)
    threads += sum(queue.concurrency for queue in queues if queue.name not in shared)
    if max(threads, len(queues)) > MOST_THREADS:
        raise ConfigError(
            f"{where}: {threads:,} threads and {len(queues):,} queues in one process; a central configuration gives at "
            f"most {MOST_THREADS:,} of each. Start more `processes`, or set `concurrency` in a local file"
        )


def refuse_local(stored: ConfigText) -> None:
    """Raises ConfigError for a text with local options, and names each with its line."""
    parser = read(stored)
    lines = _lines(stored.text)
    found = [f"line {lines.get(option, '?')} {_title(*option)}" for option in _local(parser)]
    if found:
        raise ConfigError(
            f"{stored}: {', '.join(found)}: local, because everybody who may write to the broker could change what is "
            "stored there. Central are queues, threads, weights, limits, log_level and poll_interval. Move the others "
            "to a file where the processes run: pyworkers run -c local.ini --config-from NAME"
        )


def ignored(stored: ConfigText) -> str:
    """A warning that names the local options of a text; empty where it has none."""
    names = [_title(*option) for option in _local(read(stored))]
    if not names:
        return ""
    return (
        f"{stored}: ignored, because these options are local: {in_few_words(names)}. Set them in a file where the "
        "processes run, and name it by -c beside --config-from"
    )


def in_few_words(names: Sequence[str]) -> str:
    """Names of a text that a stranger may have written, for the log."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(one_line, names[:_MOST_NAMED])) + more


def _title(section: str, name: str) -> str:
    return f"[{section[:100]}] {name[:100]}".strip()


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Where each section and each option begins."""
    lines: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\[(.+)\]", line.strip()):
            section = header[1]
            lines.setdefault((section, ""), number)
        else:
            lines.setdefault((section, re.split("[=:]", line, maxsplit=1)[0].strip()), number)
    return lines
