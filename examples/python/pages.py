"""A chain: fetch a page, count words in it side by side, and tell the counts.

See docs/chains.md.
`pyworkers run -r pages` runs the jobs. `python pages.py` pushes the chain.
"""

from __future__ import annotations

import logging
from typing import Any

import goworkers_py as workers

log = logging.getLogger(__name__)

workers.defaults(__name__, queue="pages")  # for the jobs below


@workers.job("fetch_page")
def fetch_page(url: str) -> dict[str, str]:
    return {"url": url, "text": "one two two three three three"}


@workers.job("count_word")
def count_word(page: dict[str, str], word: str) -> int:
    return page["text"].split().count(word)


@workers.job("tell_counts")
def tell_counts(counts: Any) -> None:
    log.info("the words were found %s times", counts)


if __name__ == "__main__":
    words = ("one", "two", "three")
    chain = workers.chain(
        fetch_page.s("https://example.com/"),
        workers.parallel(*(count_word.s(workers.PREVIOUS, word) for word in words)),
        tell_counts.s(workers.PREVIOUS),
    )
    print(chain.enqueue())
