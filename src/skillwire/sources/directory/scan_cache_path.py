"""Where indexes of scanned directories are kept: in the cache of the user."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_APP: Final = "skillwire"
_FOLDER: Final = "indexes"


def scan_cache_directory() -> Path | None:
    """The folder of all indexes; `None` when the system names no place for such things."""
    if sys.platform == "linux":
        # As platformdirs has it, which takes longer to import than a hundred skills take to scan.
        cache = os.environ.get("XDG_CACHE_HOME", "").strip() or str(Path("~/.cache").expanduser())
        folder = Path(cache) / _APP
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir(_APP, appauthor=False))
    return folder / _FOLDER if folder.is_absolute() else None
