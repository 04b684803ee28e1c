"""The media type of a file goes by the ending of its name, and is the same on every machine."""

from __future__ import annotations

import pytest

from skillwire.skill.media import media_type


@pytest.mark.requirement("FMT-7")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SKILL.md", "text/markdown"),
        ("README.MD", "text/markdown"),
        ("run.py", "text/x-python"),
        ("data.json", "application/json"),
        ("a.b.yaml", "application/yaml"),
        ("logo.svg", "image/svg+xml"),
        ("sound.mp3", "audio/mpeg"),
        ("archive.tar.gz", "application/gzip"),
        ("Makefile", "application/octet-stream"),
        ("odd.unheard-of", "application/octet-stream"),
        (".", "application/octet-stream"),
        ("trailing.", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
        ("http://x/y.md", "text/markdown"),
    ],
)
def test_an_ending_has_a_media_type(name: str, expected: str) -> None:
    assert media_type(name) == expected
