"""Tap: a transport that can be shut, so that who had it can do nothing more with the connection behind it."""

from __future__ import annotations

import asyncio
from typing import Any


class Tap(asyncio.Transport):
    """Passes on what a protocol does with a transport, until it is shut."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._is_shut = False

    def shut(self) -> None:
        self._is_shut = True

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._is_shut:
            self._transport.write(data)

    def close(self) -> None:
        if not self._is_shut:
            self._transport.close()

    def abort(self) -> None:
        if not self._is_shut:
            self._transport.abort()

    def pause_reading(self) -> None:
        if not self._is_shut:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_shut:
            self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._is_shut or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()
