"""FileValidator: whether a file on disk still has the bytes that were read from it, told by a look at it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final

from skillwire.sources.directory.files import FileRecord

# The coarsest clock by which file systems stamp files ticks every two seconds. A file that changed within
# that time may change once more and show the same times.
_COARSEST_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FileValidator:
    """Holds while the file has the size, the times and the identity that it had when it was hashed."""

    record: FileRecord

    def is_fresh(self) -> bool:
        record = self.record
        try:
            return record.is_unchanged(os.stat(record.path, follow_symlinks=False))
        except OSError:
            return False


def seal(record: FileRecord) -> FileValidator | None:
    """A seal on a file that was read a moment ago and hashed to its record; `None` for one just written."""
    # Elsewhere no time tells of a change that somebody hides by setting the other one back.
    if os.name != "posix" or max(record.modified, record.changed) > time.time_ns() - _COARSEST_NS:
        return None
    return FileValidator(record)
