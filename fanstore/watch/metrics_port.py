"""The TCP port for Prometheus, if the user asked for one. It is bound before anything is staged: if
the port is taken, the job does not begin."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from fanstore.config import Settings, spoken
from fanstore.errors import UsageError

_PORT_MOST = 65535


def take_port(settings: Settings, hosts: Sequence[str], rank: int) -> socket.socket | None:
    """Returns a bound socket; None if no port is wanted. hosts: the node of each rank: ranks of one
    host take successive ports, in their order. Raises UsageError."""
    if settings.metrics_port is None:
        return None
    first = settings.metrics_port
    port = first + hosts[:rank].count(hosts[rank]) if first else 0
    where = f"metrics at {settings.metrics_address} port {port}"
    source = spoken(settings.sources["metrics_port"], "metrics_port")
    if port > _PORT_MOST:
        raise UsageError(f"{where} ({source}): rank {rank} needs a port above 65535")
    try:
        return _bound(settings.metrics_address, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{where} ({source}): {reason}; choose another --metrics-port") from None


def _bound(address: str, port: int) -> socket.socket:
    """Returns a bound socket. Raises OSError."""
    family, kind, protocol, _, where = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket | None) -> str:
    """Returns the URL of the metrics for Prometheus, "" if there is none."""
    if listener is None:
        return ""
    address, port = listener.getsockname()[:2]
    if listener.family == socket.AF_INET6:
        address = f"[{address}]"
    anywhere = address in ("0.0.0.0", "[::]")
    return f"http://{os.uname().nodename if anywhere else address}:{port}/metrics"
