"""The review page: see skills, compare versions, and decide about them in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.ui.app import CombinedApp as CombinedApp
    from skillwire.ui.app import ReviewApp as ReviewApp

export(
    __name__,
    {
        "app": "CombinedApp ReviewApp",
    },
    extra="ui",
)
