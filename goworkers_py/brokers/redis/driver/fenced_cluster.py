"""Fenced connections to a Redis Cluster: a write has its fence when it is sent again, too."""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.fencing import FencedConnections, FencedLine
from goworkers_py.brokers.redis.driver.redirects import ClusterBlockingLine, ClusterConnections


class _FencedClusterLine(FencedLine, ClusterBlockingLine):
    pass


class FencedClusterConnections(FencedConnections, ClusterConnections):
    def blocking_line(self, longest_s: float) -> BlockingLine:
        return _FencedClusterLine(self._patient(longest_s), self.call_hastily, self.fence, self.lease)
