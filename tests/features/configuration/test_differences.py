from __future__ import annotations

import pytest

from goworkers_py.config.ini_file import ConfigText
from goworkers_py.config.loader import load
from goworkers_py.features.configuration.differences import differences

BASE = "[pyworkers]\ntimeout = 5\n[queue:mail]\nconcurrency = 3\n"


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", set()),
        ("prefetch = 0\n", {"[queue:mail] prefetch"}),
        ("format = plain\nlist = demo\n", {"[queue:mail] format", "[queue:mail] list"}),
        ("[queue:other]\nconcurrency = 1\n", {"[queue:other]"}),
        ("[pool:web]\nqueues = a, b\n", {"[pool:web]", "[queue:a]", "[queue:b]"}),
        ("[limit:stripe]\nconcurrent = 1\n", {"[limit:stripe]"}),
        ("[echo]\nqueue = ruby\n", {"[echo] queue"}),
        ("[middleware]\nappend = a:B\n", {"[middleware] append"}),
        (
            "[periodic:nightly]\ncron = 0 3 * * *\nclass = A\nqueue = mail\n",
            {"[periodic:nightly]"},
        ),
        ("[partition:billing]\nqueues = b 2\ntag = t\n", {"[partition:billing]", "[queue:b]"}),
    ],
)
def test_options_that_differ_are_named_and_a_section_of_one_side_is_named_once(more: str, names: set[str]) -> None:
    old, new = (load(ConfigText(text, "it"), environment={}) for text in (BASE, BASE + more))
    assert differences(old, new) == names
    assert differences(new, old) == names


def test_an_option_of_a_partition_is_named_with_its_section() -> None:
    texts = (f"[partition:billing]\nqueues = b {threads}\ntag = {tag}\n" for threads, tag in ((2, "x"), (3, "y")))
    old, new = (load(ConfigText(text, "it"), environment={}) for text in texts)
    assert differences(old, new) == {"[partition:billing] tag", "[queue:b] concurrency"}
