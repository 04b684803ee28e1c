"""Skills in agent frameworks and model services: one small module for each, imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.adapters.calls import CallQuestion as CallQuestion

export(
    __name__,
    {
        "calls": "CallQuestion",
    },
)
