"""Scan caches are in the user's cache directory, where the system has one."""

from __future__ import annotations

import sys
from pathlib import Path

import platformdirs
import pytest

from skillwire.sources import scan_cache_directory


@pytest.mark.parametrize("cache", ["/caches", " ", "", None])
def test_the_folder_is_in_the_cache_that_platformdirs_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if cache is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    expected = platformdirs.user_cache_dir("skillwire", appauthor=False)
    assert scan_cache_directory() == Path(expected) / "scans"


def test_other_systems_are_asked_through_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda app, appauthor: f"/of/{app}")
    assert scan_cache_directory() == Path("/of/skillwire/scans")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a cache is not named by a variable")
def test_a_cache_that_is_no_absolute_path_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert scan_cache_directory() is None
