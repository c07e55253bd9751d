"""The properties of another program's message in RabbitMQ, whose body a message of ours has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.wire.message_part import MessagePart

if TYPE_CHECKING:
    from goworkers_py.wire.properties import Properties


class BodyMessage(MessagePart):
    __slots__ = ()

    @property
    def properties(self) -> Properties | None:
        """Everything that another program has said beside the body of its message in RabbitMQ, such as
        `workers.current_message().properties.headers` and `.reply_to`. A retry has them too. None for a job, and for a
        body from a list of Redis."""
        from goworkers_py.features.plain_lists.properties import properties_in

        return properties_in(self.fields)
