"""The fixtures of `sandbox_world`."""

from __future__ import annotations

from sandbox_world import bwrap, sandbox_folder, secret, worker, world

__all__ = ["bwrap", "sandbox_folder", "secret", "worker", "world"]
