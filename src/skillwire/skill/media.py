"""The media type of a file, by its name."""

from __future__ import annotations

import mimetypes
from functools import cache

MARKDOWN = "text/markdown"
DIRECTORY = "inode/directory"
_UNKNOWN = "application/octet-stream"

# A table of our own for what skills hold: the system's differs from machine to machine.
_KNOWN = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".txt": "text/plain",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".ts": "text/x-typescript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".csv": "text/csv",
    ".html": "text/html",
    ".css": "text/css",
    ".xml": "application/xml",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".zip": "application/zip",
    ".gz": "application/gzip",
}


def media_type(name: str) -> str:
    """The media type for a file name; `application/octet-stream` when nothing is known."""
    _, dot, ending = name.rpartition(".")
    if not dot:
        return _UNKNOWN
    # By the ending alone: the standard library takes a whole name for a URL.
    return _KNOWN.get(f".{ending.lower()}") or _standard().guess_type(f"file.{ending}")[0] or _UNKNOWN


@cache
def _standard() -> mimetypes.MimeTypes:
    # Made when it is first needed: making it reads the system's tables.
    return mimetypes.MimeTypes()
