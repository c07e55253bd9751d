"""Typed messages: a class with fields, a channel and the code that runs for each message.

A class below `TypedMessage` declares a job whose only argument is the message (`typed_message`). Its fields become a
body by a codec, and are read back by whichever version of the class receives them (`payload`). The channel is the queue
of the job, so that a daemon resolves messages as it runs all jobs. A program that is no daemon receives them too, by a
launcher for this one queue in its background (`receiver`).

In the engine: `wire.codecs`, for these bodies and those of plain lists.

- `api`: `workers.send` and `workers.receive`.

For users: docs/typed-messages.md.
"""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class MessagesFeature(Feature):
    """A class with fields, a channel and the code that runs for each message."""


FEATURE = MessagesFeature()
