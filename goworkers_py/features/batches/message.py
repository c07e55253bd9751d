"""The property of a message that leads to the batch of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.wire.message_part import MessagePart

if TYPE_CHECKING:
    from goworkers_py.features.batches.joining import Join


class MessageOfBatch(MessagePart):
    __slots__ = ()

    @property
    def batch(self) -> Join | None:
        """The batch of the job: pushes inside of `with workers.current_message().batch:` join it. None for a job in no
        batch."""
        from goworkers_py.features.batches.joining import Join, JoinedBatch
        from goworkers_py.features.batches.payload import batch_of

        member, home = batch_of(self.fields), None if self.held is None else self.held.home
        return None if member is None else Join(JoinedBatch(member, home, self, own=True))
