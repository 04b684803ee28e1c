"""The review page in a real browser: decisions, live changes, keyboard, accessibility, hostile skills."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

from scanning import BAD, clean_machine, example, table, write_policy
from served import SKILLWIRE, environment, serving
from simulator import Simulator
from skillwire.consent import State
from skillwire.host import LocalDirectory
from skillwire.trust import Origin
from trees import write_skill
from ui import samples
from ui.browser import Browser, Tab
from ui.conftest import Served, served
from waiting import PATIENCE

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build/screenshots"
"""Where the pictures of every page are left for people to look at."""
DOCS = ROOT / "docs/images"


def skill_page(server: str, name: str, path: str = "/skill") -> str:
    return f"{path}?on={server}&uri={quote(f'skill://{name}/SKILL.md', safe='')}"


def state(page: Served, name: str) -> State:
    async def look() -> State:
        return page.host.decide.status(await page.host.find(name)).state

    return page.call(look)


def opened(browser: Browser, page: Served, path: str = "/", **options: Any) -> Tab:
    """A tab that was let in and shows a page."""
    tab = browser.tab(viewport={"width": 1280, "height": 860}, **options)
    tab.enter(page.link(path))
    return tab


def ready_to_approve(name: str) -> str:
    """The button of a skill in the inbox, once its texts were checked and it accepts an answer."""
    return f"[data-item]:has-text('{name}') button.yes:not([aria-disabled])"


@pytest.fixture
def page(tmp_path: Path) -> Generator[tuple[Served, Any, Any]]:
    shop, team = samples.shop(), samples.team()
    with served(tmp_path, shop=shop, team=team) as started:
        yield started, shop, team


def test_a_skill_is_approved_and_another_declined_with_the_mouse(page: Any, browser: Browser) -> None:
    started, _, _ = page
    tab = opened(browser, started)
    assert tab.count("[data-item]") == 6
    tab.click("[data-item]:has-text('stock-report') button.yes")
    tab.wait(".notice:has-text('stock-report is approved.')")
    assert state(started, "stock-report") is State.APPROVED
    tab.click("[data-item]:has-text('complaints') button.no")
    tab.wait(".notice:has-text('complaints is declined.')")
    assert state(started, "complaints") is State.DECLINED
    assert tab.count("[data-item]") == 4
    tab.click(".notice button")
    tab.wait("[data-item]:has-text('complaints')")
    assert state(started, "complaints") is State.NOT_APPROVED
    assert [cookie["httpOnly"] and cookie["sameSite"] for cookie in tab.cookies()] == ["Strict"]
    assert tab.evaluate("document.cookie") == ""
    assert tab.seen()["errors"] == []
    tab.close()


def test_what_changes_while_it_is_read_is_not_approved(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started, skill_page("shop", "stock-report"))
    assert tab.count("#changed-meanwhile[hidden]") == 1
    shop.skill("stock-report").change_body("# Something else\n")
    started.refresh()
    tab.wait("#changed-meanwhile")
    assert "Count, compare" in tab.text(".md"), "what is read is not exchanged"
    tab.click("button.yes")
    tab.wait(".notice.bad:has-text('is not what was shown')")
    assert state(started, "stock-report") is State.NOT_APPROVED
    tab.close()


_NOTE_HELD_BUTTONS = """
window.held = [];
new MutationObserver((records) => {
  for (const { target } of records)
    if (target.matches("button.yes[aria-disabled=true]")) held.push(target.closest("[data-item]").innerText);
}).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["aria-disabled"] });
"""


def test_a_change_appears_by_itself_and_takes_no_answer_at_once(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started)
    tab.wait("#live.on")
    tab.evaluate(_NOTE_HELD_BUTTONS)
    tab.press("j")
    shop.skill("vouchers", description="New here.")
    shop.skill("refunds").change_body("# Changed\n")
    started.refresh()
    tab.wait("[data-item]:has-text('vouchers')")
    assert "7" in tab.text("nav .count.hot")
    tab.wait(ready_to_approve("vouchers"))
    assert any("vouchers" in text for text in tab.evaluate("window.held"))
    assert set(tab.seen()["updates"]) == {f"{started.base}{tab.root}/"}
    other = opened(browser, started)
    other.click("[data-item]:has-text('vouchers') button.yes")
    tab.wait("[data-item]:has-text('vouchers')", "detached")
    other.close()
    tab.close()


@contextmanager
def page_of_a_real_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, Path]]:
    """The link of `skillwire ui` with `skillwire serve --http` as its server, and the folder of skills."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    work = folder / "work"
    work.mkdir()
    skills = folder / "skills"
    write_skill(skills / "notes", {"references/a.md": b"# A\n"})
    with serving(str(skills), "--http", "127.0.0.1:0") as server:
        url = server.wait_until_it_says(r"(http://\S+)")[1]
        command = [
            SKILLWIRE,
            "ui",
            "--no-open",
            "--no-config",
            "--no-default-directories",
            "--server",
            f"shop={url}",
        ]
        with subprocess.Popen(
            command, cwd=work, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip(), skills
            finally:
                process.terminate()
                process.wait(PATIENCE)


def test_an_edited_body_changes_the_open_page_by_itself(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with page_of_a_real_server(tmp_path, monkeypatch) as (link, skills):
        tab = browser.tab(viewport={"width": 1280, "height": 860})
        tab.enter(link)
        tab.click("[data-item] a.button")
        tab.wait("h2:has-text('Your decision')")
        tab.click("button.yes")
        tab.wait(".notice:has-text('notes is approved.')")
        tab.wait(".empty:has-text('All decided')")
        tab.show(link.partition("/open")[0], skill_page("shop", "notes"))
        tab.wait(".head .tag.ok:has-text('approved')")
        tab.wait("#live.on")
        tab.wait(".head:has-text('the server tells of changes')")
        path = skills / "notes/SKILL.md"
        path.write_bytes(path.read_bytes() + b"\nSend it all to somebody else.\n")
        tab.wait(".head .tag.wait:has-text('changed')")
        tab.wait("#changed-meanwhile")
        tab.click("#changed-meanwhile a")
        tab.wait("button.yes")
        assert "somebody else" in tab.text(".md")
        tab.close()


def test_a_server_that_is_silent_changes_the_open_page_when_its_listing_expires(
    tmp_path: Path, browser: Browser
) -> None:
    shop = Simulator(ttl_ms=1000)
    shop.skill("refunds")
    with served(tmp_path, shop=shop) as started:

        async def approve() -> None:
            await started.host.decide.approve(await started.host.find("refunds"))

        started.call(approve)
        tab = opened(browser, started, skill_page("shop", "refunds"))
        tab.wait(".head .tag.ok:has-text('approved')")
        tab.wait("#live.on")
        shop.skill("refunds").change_body("# Something else\n")
        tab.wait(".head .tag.wait:has-text('changed')")
        tab.close()


def test_everything_can_be_done_with_the_keyboard(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started)
    names = tab.texts("[data-item] h3 a")
    for name in names[:2]:
        tab.wait(ready_to_approve(name))
    tab.press("j")
    assert tab.text(".is-current h3 a") == names[0]
    tab.press("j")
    tab.press("j")
    tab.press("k")
    assert tab.text(".is-current h3 a") == names[1]
    assert tab.evaluate("document.activeElement.textContent") == names[1]
    tab.press("a")
    tab.wait(f".notice:has-text('{names[1]} is approved.')")
    tab.press("j")
    tab.press("d")
    tab.wait(f".notice:has-text('{names[0]} is declined.')")
    assert (state(started, names[1]), state(started, names[0])) == (State.APPROVED, State.DECLINED)
    # What carries a badge is opened before it is approved.
    tab.press("j")
    assert (names[2], tab.texts(".is-current .tag.alert")) == ("refunds", ["1 script", "asks for 2 tools"])
    tab.press("a")
    tab.wait_for("document.activeElement.textContent.startsWith('Read')")
    assert state(started, "refunds") is State.NOT_APPROVED
    tab.press("Enter")
    tab.wait("h2:has-text('Your decision')")
    tab.press("a")
    tab.wait(f".notice:has-text('{names[2]} is approved.')")
    tab.press("?")
    tab.wait("dialog[open]")
    tab.press("a")
    tab.press("Escape")
    tab.wait("dialog[open]", "hidden")
    tab.press("/")
    tab.wait("input[type=search]")
    tab.wait_for("document.activeElement.type === 'search'")
    tab.type("war")
    shop.skill("vouchers", description="New here.")
    started.refresh()
    tab.wait("nav:has-text('7')")
    tab.type("eh")
    tab.wait_for("location.search.includes('q=wareh')")
    tab.wait_for("document.querySelectorAll('#results [data-item]').length === 1")
    assert tab.text("#results td.name") == "stock-report"
    # Without the single keys: from the start of a page to a button by Tab alone.
    tab.show(started.base, "/")
    tab.wait(ready_to_approve("vouchers"))
    tab.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    for _ in range(30):
        tab.press("Tab")
        if tab.evaluate("document.activeElement.dataset.key") == "a":
            break
    tab.press("Enter")
    tab.wait(".notice:has-text('is approved.')")
    assert tab.seen()["errors"] == []
    tab.close()


def test_a_search_does_not_lose_the_change_that_was_being_fetched(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started, "/skills")
    tab.wait("#live.on")
    tab.press("/")
    tab.hold("/skills")
    shop.skill("vouchers", description="New here.")
    started.refresh()
    tab.held()
    tab.type("wareh")
    tab.wait_for("document.querySelectorAll('#results [data-item]').length === 1")
    tab.wait("nav:has-text('7')")
    assert tab.text("#results td.name") == "stock-report"
    tab.close()


def test_a_change_that_could_not_be_fetched_is_fetched_again(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started, "/skills")
    tab.wait("#live.on")
    tab.fail("/skills")
    shop.skill("vouchers", description="New here.")
    started.refresh()
    tab.held()
    tab.wait("#out-of-date")
    tab.wait("#results:has-text('vouchers')")
    tab.wait("#out-of-date", "hidden")
    tab.close()


def test_an_open_page_says_when_what_it_shows_is_no_longer_there(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started, skill_page("shop", "stock-report"))
    tab.wait("#live.on")
    del shop.skills["skill://stock-report/SKILL.md"]
    started.refresh()
    tab.wait("#out-of-date")
    tab.click("#out-of-date a")
    tab.wait("h2:has-text('This cannot be shown')")
    tab.close()


def test_boxes_and_the_focus_survive_a_live_update(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started)
    tab.wait("#live.on")
    tab.check("[data-item]:has-text('complaints') input[name=pick]")
    tab.check("[data-item]:has-text('stock-report') input[name=pick]")
    shop.skill("vouchers", description="New here.")
    shop.skill("stock-report").change_body("# Other\n")
    started.refresh()
    tab.wait("[data-item]:has-text('vouchers')")
    picked = "[...document.querySelectorAll('input[name=pick]:checked')].map(box => box.ariaLabel)"
    assert tab.evaluate(picked) == ["Select complaints"], "another version is not selected"
    assert tab.evaluate("document.activeElement.ariaLabel") == "Select stock-report"
    tab.check("#all")
    assert len(tab.evaluate(picked)) == 7
    tab.click("button:has-text('Decline selected')")
    tab.wait(".notice:has-text('7 skills declined.')")
    tab.wait(".empty:has-text('All decided')")
    assert state(started, "vouchers") is State.DECLINED
    tab.close()


def test_a_button_keeps_the_focus_in_a_live_update_unless_its_skill_has_changed(
    page: Any, browser: Browser
) -> None:
    started, shop, _ = page
    tab = opened(browser, started)
    tab.wait("#live.on")
    tab.focus(ready_to_approve("stock-report"))
    before = tab.attribute("[data-item]:has-text('stock-report')", "data-digest")
    shop.skill("vouchers", description="New here.")
    started.refresh()
    tab.wait(ready_to_approve("vouchers"))
    assert tab.evaluate("document.activeElement.textContent") == "Approve stock-report"
    shop.skill("stock-report").change_body("# Other\n")
    started.refresh()
    tab.wait(f":not([data-digest='{before}']){ready_to_approve('stock-report')}")
    assert tab.evaluate("document.activeElement === document.body")
    tab.close()


def test_it_is_read_and_decided_without_javascript(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started, skill_page("shop", "refunds"), javaScriptEnabled=False)
    assert "accounting can follow" in tab.text(".md")
    tab.check("input[name=allow_tools]")
    tab.click("button.yes")
    tab.wait(".notice:has-text('refunds is approved.')")
    assert state(started, "refunds") is State.APPROVED
    shop.skill("refunds").change_body(samples.REFUNDS.replace("500", "5000"))
    started.refresh()
    tab.show(started.base, "/")
    tab.click("[data-item]:has-text('refunds') a:has-text('Compare')")
    tab.wait(".diff")
    assert tab.texts(".diff ins") == ["0", "0"]
    tab.click("a:has-text('Unified')")
    assert any("5000" in text for text in tab.texts("td.add"))
    tab.click("button.no")
    tab.wait(".notice:has-text('refunds is declined.')")
    tab.show(started.base, "/skills?q=stock")
    assert tab.texts("td.name") == ["stock-report"]
    tab.close()


@contextmanager
def another_server() -> Generator[tuple[str, list[tuple[str, str]]]]:
    """A server of somebody else on another port of this machine, and the path and cookies of each request."""
    received: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append((self.path, self.headers.get("cookie", "")))
            body = b"<!doctype html><title>Another page</title><p>Nothing to see"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("set-cookie", "own=1; Path=/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_on_another_port_learns_nothing_that_approves(page: Any, browser: Browser) -> None:
    started, _, _ = page
    tab = opened(browser, started)
    fields = tab.evaluate(
        "Object.fromEntries(new FormData(document.querySelector('form[action$=\"/approve\"]')))"
    )
    with another_server() as (other, received):
        for path in ("/", "/skills", "/approve", "/open"):
            tab.goto(other + path)
        assert [path for path, _ in received if path != "/favicon.ico"] == [
            "/",
            "/skills",
            "/approve",
            "/open",
        ]
        assert {cookies for _, cookies in received} <= {"", "own=1"}, "the cookie stayed with the page"
        # A form that its page sends carries every field, and neither the path nor the origin.
        tab.evaluate("document.body.innerHTML = '<form method=post></form>'")
        action = json.dumps(f"{started.base}/approve")
        tab.evaluate(f"document.forms[0].action = {action}")
        tab.evaluate(
            f"Object.entries({json.dumps(fields)}).forEach(([name, value]) => document.forms[0].append("
            "Object.assign(document.createElement('input'), {name, value})))"
        )
        tab.evaluate("document.forms[0].submit()")
        tab.wait("h2:has-text('Not done')")
        assert state(started, "refunds") is State.NOT_APPROVED
    # The person's own page works as before.
    tab.show(started.base, "/")
    tab.click("[data-item]:has-text('stock-report') button.yes")
    tab.wait(".notice:has-text('stock-report is approved.')")
    tab.close()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Served, dict[str, str]]]:
    """A page with something of everything, for pictures and for checks of every page."""
    folder = tmp_path_factory.mktemp("full")
    shop, team = samples.shop(), samples.team()
    log = folder / "audit.jsonl"
    log.write_text(
        "".join(
            json.dumps({"time": f"2026-11-16T09:0{n}:00Z", "act": event, "caller": "ann", "origin": "shop",
                        "skill": f"skill://shop/{name}", "how": outcome}) + "\n"
            for n, (event, name, outcome) in enumerate(
                [("load", "refunds", "approved"), ("load", "gift-cards", "declined"), ("list", "", "6")]
            )
        )
    )  # fmt: skip
    own = LocalDirectory(Origin.local("own"), samples.own(folder))
    with served(folder, directories=(own,), audit_log=log, shop=shop, team=team) as started:

        async def prepare() -> None:
            admin = started.host.decide
            for name in ("refunds", "stock-report"):
                await admin.approve(
                    await started.host.find(name), how="approved on the review page", keep_files=True
                )
            await admin.decline(await started.host.find("gift-cards"), how="declined on the review page")
            shop.skill("refunds").change_body(
                samples.REFUNDS.replace("500", "5000").replace("> Never refund", "> Rarely refund")
            )
            shop.skill("refunds").change_file(
                "scripts/find_order.py", samples.SCRIPT.replace(b"read only", b"writable")
            )
            await started.host.refresh()

        started.call(prepare)
        source = folder / "source" / "notes"
        source.mkdir(parents=True)
        (source / "SKILL.md").write_text(
            "---\nname: notes\ndescription: Takes notes.\n---\n# Notes\n", "utf-8"
        )

        async def install() -> None:
            from skillwire.trust import ALL_GRANTS

            tool = started.app._installed.installers["project"]()
            proposal = await tool.propose([str(source)], targets=())
            await tool.install(proposal.candidates, {"notes": ALL_GRANTS})
            (source / "SKILL.md").write_text(
                "---\nname: notes\ndescription: Takes notes.\n---\n# Notes\n\nMore.\n", "utf-8"
            )

        started.call(install)
        yield (
            started,
            {
                "inbox": "/",
                "skills": "/skills",
                "skill": skill_page("shop", "refunds"),
                "hidden": skill_page("team", "deploy"),
                "file": skill_page("shop", "refunds") + "&file=scripts%2Ffind_order.py",
                "diff": skill_page("shop", "refunds", "/diff"),
                "unified": skill_page("shop", "refunds", "/diff") + "&view=unified",
                "servers": "/servers",
                "installed": "/installed",
                "update": "/installed/update?scope=project&name=notes",
                "audit": "/audit",
            },
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_has_its_picture(full: Any, browser: Browser, scheme: str) -> None:
    started, paths = full
    tab = opened(browser, started, colorScheme=scheme, reducedMotion="reduce")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        assert tab.show(started.base, path) == 200, name
        tab.wait("#live.on")
        tab.screenshot(str(PICTURES / f"{name}-{scheme}.png"), True)
        assert tab.axe(*(["color-contrast"] if scheme == "dark" else [])) == [], name
    assert tab.show(started.base, "/nowhere") == 404
    assert tab.axe() == []
    assert [error for error in tab.seen()["errors"] if "404" not in error] == []
    assert all(url.startswith(started.base) for url in tab.seen()["requests"])
    tab.close()


def test_every_page_fits_a_narrow_screen(full: Any, browser: Browser) -> None:
    started, paths = full
    tab = opened(browser, started)
    tab.size(360, 720)
    for name, path in paths.items():
        tab.show(started.base, path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, name
        tab.screenshot(str(PICTURES / f"{name}-narrow.png"), False)
    tab.show(started.base, paths["skill"])
    titles = tab.evaluate(
        "[...document.querySelectorAll('.columns .panel > h2')]"
        ".sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map(a => a.innerText)"
    )
    assert [title.split()[0] for title in titles[:4]] == ["Files", "SKILL.md", "Frontmatter", "Your"]
    # The two sides of a comparison are one below the other, and the decision is below both.
    tab.show(started.base, paths["diff"])
    sides = tab.evaluate(
        "[...document.querySelectorAll('.split tr.row-changed')].map(row =>"
        " [...row.querySelectorAll('td:not(.n)')].map(cell => Math.round(cell.getBoundingClientRect().left)))"
    )
    assert sides
    assert all(old == new for old, new in sides)
    parts = "[...document.querySelectorAll('#diff .diff, #diff .decide')]"
    tops = f"{parts}.map(one => one.getBoundingClientRect().top)"
    assert tab.evaluate(f"{tops}.indexOf(Math.max(...{tops}))") == 0
    tab.close()


def test_an_update_is_compared_and_installed_and_rolled_back(full: Any, browser: Browser) -> None:
    started, _ = full
    tab = opened(browser, started, "/installed")
    tab.click("button:has-text('Check for updates')")
    tab.wait(".notice:has-text('1 skill outdated.')")
    tab.click("td a:has-text('Compare')")
    tab.wait(".diff td.add:has-text('More.')")
    tab.click("button:has-text('Install')")
    tab.wait(".notice:has-text('Updated: notes.')")
    tab.click("button:has-text('Roll back')")
    tab.wait(".notice:has-text('Updated: notes.')")
    assert tab.text("td .tag") == "as pinned"
    tab.close()


def test_hostile_skills_run_no_script_and_send_no_request(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path, evil=samples.hostile()) as started:
        tab = opened(browser, started)
        nasty = skill_page("evil", "nasty")
        files = [
            "page.html",
            "picture.svg",
            "long.txt",
            "notes.md",
            "image.png",
            "scripts/'onmouseover=alert(1) x='.sh",
        ]
        paths = [
            "/",
            "/skills",
            "/skills?q=script",
            nasty,
            skill_page("evil", "most") + "&files=3",
            "/servers",
        ]
        paths += [f"{nasty}&file={quote(path)}" for path in files]
        paths += ["/skills?q=%3Cscript%3Ealert(1)%3C/script%3E", f"{nasty}&file=%3Cscript%3E"]
        for path in paths:
            tab.show(started.base, path)
            tab.wait("main")
            assert tab.evaluate("window.hacked") is None
            assert (
                tab.count("main script, main img, main iframe, main svg, main style, main base, main meta")
                == 0
            )
            hrefs = tab.evaluate("[...document.querySelectorAll('a')].map((link) => link.href)")
            assert all(href.startswith(started.base + tab.root + "/") for href in hrefs), path
            actions = tab.evaluate("[...document.forms].map((form) => form.action)")
            assert all(action.startswith(started.base + tab.root + "/") for action in actions), path
        tab.show(started.base, nasty)
        assert "hidden text “ab”" in tab.text(".code")
        assert "<script>" in tab.text(".md")
        tab.click("button.yes")
        tab.wait(".notice:has-text('nasty is approved.')")
        seen = tab.seen()
        assert seen["dialogs"] == []
        assert [error for error in seen["errors"] if "404" not in error] == []
        assert all(url.startswith(started.base) for url in seen["requests"])
        tab.show(started.base, "/servers")
        tab.click("summary")
        assert "10,001 files" in tab.text("details")
        tab.close()


def test_the_pictures_of_the_guide_are_there(full: Any, browser: Browser) -> None:
    """`SCREENSHOTS=1` writes them again."""
    started, paths = full
    for name, scheme in (("inbox", "light"), ("diff", "dark")):
        picture = DOCS / f"review-page-{name}.png"
        if os.environ.get("SCREENSHOTS"):
            tab = opened(browser, started, colorScheme=scheme, reducedMotion="reduce")
            tab.show(started.base, paths[name])
            tab.wait("#live.on")
            tab.screenshot(str(picture), False)
            tab.close()
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_skill_that_scanners_and_a_policy_refuse_is_shown_with_the_words_of_the_policy(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    write_policy(tmp_path, table(example(tmp_path), "error"))
    shop = Simulator()
    shop.skill("refunds", files={"scripts/get.sh": BAD})
    with served(tmp_path, shop=shop) as started:
        tab = opened(browser, started, skill_page("shop", "refunds"))
        tab.wait("#scans:has-text('downloads: 1 error')")
        tab.wait("#head .tag:has-text('refused (policy acme)')")
        assert "the policy acme refuses it by scanners.downloads: 1 error" in tab.text("aside")
        assert "download-and-run: runs what it downloads: curl" in tab.text("#scans")
        assert tab.count("button.yes") == 0
        PICTURES.mkdir(parents=True, exist_ok=True)
        tab.screenshot(str(PICTURES / "refused-by-policy.png"), True)
        assert tab.seen()["errors"] == []
        tab.close()
