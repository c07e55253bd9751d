"""docs/options.md and the sample conf/pyworkers.ini, from the table of options, and the options of a job."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

from goworkers_py.config import job_options
from goworkers_py.config.feature_options import feature_sections, named_sections
from goworkers_py.config.job_option import Option
from goworkers_py.config.options import (
    SECTION,
    Config,
    MiddlewareConfig,
    PartitionConfig,
    PoolConfig,
    QueueConfig,
    WebConfig,
    help_of,
    options_of,
)
from goworkers_py.config.partitions import OF_PARTITION
from reference.markdown import GENERATED, code, prose, table

SECTIONS = {
    SECTION: Config,
    "queue:default": QueueConfig,
    "pool:web": PoolConfig,
    "partition:billing": PartitionConfig,
    **{f"{kind}:{table.example}": table for kind, table in named_sections().items()},
    "middleware": MiddlewareConfig,
    **{kind: table for kind, table in feature_sections().items() if kind not in named_sections()},
    "web": WebConfig,
}
# These sections have no defaults that a program could use. So the sample shows them as comments, with these values.
HIDDEN = (PoolConfig, PartitionConfig, *named_sections().values())
# Options of features without a default: what the code says counts.
OF_CODE = {
    name for rows in feature_sections().values() for name, row in options_of(rows).items() if row.default is None
}
EXAMPLES = {
    "queues": "critical, default, low",
    "partition:billing queues": "invoices 10, mail 5",
    "cron": "0 3 * * *",
    "class": "Report::NightlyJob",
    "args": "[]",
    "concurrent": "5",
    "rate": "100/minute",
    "burst": "1",
}

MORE = {
    "partition:billing": (
        f"A partition may also give these options of [pyworkers] for itself: {', '.join(OF_PARTITION)}."
    )
}

SAMPLE_HEAD = """\
; Every option of pyworkers with its default. Copy what you change and leave out the rest; docs/configuration.md says
; more. This file is written by `make reference`.
"""


def written(value: Any) -> str:
    """A default as it stands in a file."""
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    return "auto" if value is None else str(value)


_HEAD = f"""\
{GENERATED}

# Options

Every option of the configuration, by section of the file, with its default. [Configuration](configuration.md) says \
how files, environment and flags go together; [jobs](jobs.md#options-of-a-job) has the options of a job.

An option of `[pyworkers]` is a flag and an environment variable too: `log_level` is `--log-level` and \
`PYWORKERS_LOG_LEVEL`. A short flag stands in parentheses. The other sections exist in the file only. \
[conf/pyworkers.ini](../conf/pyworkers.ini) is a file with all of them.
"""


def page() -> str:
    parts = [_HEAD]
    for section, rows_of in SECTIONS.items():
        rows = [_cells(name, row) for name, row in options_of(rows_of).items()]
        parts += [f"## [{section}]\n", table(["option", "default", "what it is"], rows) + "\n"]
        parts += [MORE[section] + "\n"] if section in MORE else []
    return "\n".join(parts)


def _cells(option: str, row: Field[Any]) -> list[str]:
    flag = row.metadata["flag"]
    default = "" if row.name in OF_CODE else written(row.default)
    name = f"{code(option)} ({code(flag)})" if flag else code(option)
    return [name, code(default) or "none", prose(help_of(row, code))]


def of_jobs() -> str:
    """The table of a job's options for docs/jobs.md."""
    tables = (job_options.CodeOptions, job_options.SetOptions, job_options.PushOptions)
    rows: dict[str, Option] = {}
    for one in tables:
        rows |= job_options.options_of(one)
    lines = [
        [code(name), *("yes" if name in job_options.options_of(one) else "" for one in tables), prose(row.about)]
        for name, row in rows.items()
    ]
    return table(["option", code("@job"), code("set()"), code("EnqueueOptions"), "what it is"], lines)


def sample() -> str:
    lines = [SAMPLE_HEAD]
    for section, rows_of in SECTIONS.items():
        hidden = "; " if rows_of in HIDDEN else ""
        lines.append(f"{hidden}[{section}]")
        for name, row in options_of(rows_of).items():
            value = EXAMPLES.get(f"{section} {name}", EXAMPLES.get(name, written(row.default)))
            lines += [f"; {help_of(row)}", f"{hidden}{name} = {value}".rstrip()]
        lines += [f"; {MORE[section]}"] if section in MORE else []
        lines.append("")
    return "\n".join(lines)
