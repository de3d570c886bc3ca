"""How long may one HTTP request take? Until its deadline, over everything: connecting, sending, each piece of answer.

The time limit of a socket starts anew with every byte, so alone it bounds nothing: a service that trickles would hold
an episode for hours. A proxy named in the environment is not used.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from http.client import HTTPConnection, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import urlsplit

_HEADERS = {"Content-Type": "application/json", "Connection": "close"}


class Endpoint:
    """Where requests go. Holds no connection, so threads share nothing."""

    def __init__(self, url: str) -> None:
        """Raises ``ValueError`` with the reason if ``url`` is not http(s) with a host, or has more than a path."""
        target = urlsplit(url)
        if target.scheme not in ("http", "https") or not target.hostname:
            raise ValueError("it must start with http:// or https:// and name a host")
        if "?" in url or "#" in url:
            raise ValueError("it has a query or a fragment, which would not be sent: end it with the path")
        self._tls = ssl.create_default_context() if target.scheme == "https" else None
        self._host, self._port = target.hostname, target.port or (443 if self._tls else 80)
        self._path = target.path if target.path not in ("", "/") else "/retrieve"
        self.name = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{self._path}"

    def post(self, body: bytes, deadline: float, largest: int) -> tuple[int, bytes]:
        """Status and body of the answer over a connection of its own; at most ``largest`` bytes are read.

        ``deadline`` is on the monotonic clock; only looking up the host's name can outlast it. Raises ``OSError``
        (``TimeoutError`` at the deadline) or ``HTTPException``.
        """
        kind = HTTPSConnection if self._tls else HTTPConnection
        connection = kind(self._host, self._port)
        connection.sock = _Timed(self._connected(deadline), deadline)
        try:
            connection.request("POST", self._path, body, _HEADERS)
            answer = connection.getresponse()
            content = answer.read(largest)
            if answer.length and len(content) < largest:
                raise IncompleteRead(content, answer.length)
            return answer.status, content
        finally:
            connection.close()

    def _connected(self, deadline: float) -> socket.socket:
        last: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM):
            stream = socket.socket(family, kind, protocol)
            try:
                stream.settimeout(_left(deadline))
                stream.connect(address)
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self._tls.wrap_socket(stream, server_hostname=self._host) if self._tls else stream
            except OSError as error:
                stream.close()
                last = error
        raise last or OSError(f"{self._host} has no address")


class _Timed:
    """What ``http.client`` uses of a socket, with one deadline for all of it."""

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def sendall(self, data: Any) -> None:
        self._stream.settimeout(_left(self._deadline))
        self._stream.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._stream, self._deadline))

    def close(self) -> None:
        self._stream.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream, self._raw, self._deadline = stream, stream.makefile("rb", buffering=0), deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._stream.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    """Seconds, more than 0."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
