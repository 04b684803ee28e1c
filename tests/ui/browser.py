"""A real Chromium, driven by Playwright in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from environments import node_environment
from interop.peers import find_node

_DRIVER = Path(__file__).parent / "driver.mjs"


class BrowserError(AssertionError):
    """What the page did not do."""


class Tab:
    """A page in a profile of its own. Each method is an act of `driver.mjs`, and waits until it is done."""

    def __init__(self, browser: Browser, number: int) -> None:
        self._browser = browser
        self._number = number
        self.root = ""
        """Where the pages of its session are, once it was let in."""

    def enter(self, link: str) -> None:
        """Open a page with its link."""
        self.goto(link)
        self.wait("header.side")
        self.root = self.attribute("body", "data-root")

    def show(self, base: str, path: str) -> Any:
        """Go to a page of its session."""
        return self.goto(base + self.root + path)

    def press(self, key: str) -> None:
        """Press a key when the page listens: its light is the last thing that its script turns on."""
        self.wait("#live.on")
        self._browser.ask(act="press", page=self._number, args=[key])

    def __getattr__(self, act: str) -> Any:
        return lambda *args: self._browser.ask(act=act, page=self._number, args=args)


class Browser:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the browser ended"
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{request}: {answer['error']}")
        return answer["ok"]

    def tab(self, **options: Any) -> Tab:
        """A new page: Playwright's options of a context, such as `javaScriptEnabled`."""
        return Tab(self, self.ask(act="open", options=options))


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser that ends with the test."""
    folder = node_environment("browser")
    # Unpacked into a folder of its own: in a shared one, another process may have unpacked half of it.
    with tempfile.TemporaryDirectory(prefix="skillwire-browser-", ignore_cleanup_errors=True) as unpacked:
        process = subprocess.Popen(
            [find_node().node, str(_DRIVER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": unpacked},
        )
        try:
            yield Browser(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
