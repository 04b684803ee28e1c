"""The review page in a real browser: decisions, live changes, keyboard, accessibility, hostile skills."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from skillwire.host.approvals.status import State
from skillwire.host.directories import LocalDirectory
from skillwire.trust.origin import Origin
from ui import samples
from ui.browser import Browser, Tab
from ui.conftest import Served, served

pytestmark = [pytest.mark.process, pytest.mark.interop]
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build/screenshots"
"""Where the pictures of every page are left for people to look at."""
DOCS = ROOT / "docs/images"


def skill_page(server: str, name: str, path: str = "/skill") -> str:
    return f"{path}?on={server}&uri={quote(f'skill://{name}/SKILL.md', safe='')}"


def state(page: Served, name: str) -> State:
    async def look() -> State:
        return page.host.admin.status(await page.host.find(name)).state

    return page.call(look)


def opened(browser: Browser, page: Served, path: str = "/", **options: Any) -> Tab:
    """A tab that was let in and shows a page."""
    tab = browser.tab(viewport={"width": 1280, "height": 860}, **options)
    tab.goto(page.link(path))
    tab.wait("header.side")
    return tab


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
    assert state(started, "complaints") is State.NEW
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
    assert state(started, "stock-report") is State.NEW
    tab.close()


def test_a_change_appears_by_itself_and_takes_no_answer_at_once(page: Any, browser: Browser) -> None:
    started, shop, _ = page
    tab = opened(browser, started)
    tab.wait("#live.on")
    tab.press("j")
    shop.skill("vouchers", description="New here.")
    shop.skill("refunds").change_body("# Changed\n")
    started.refresh()
    tab.wait("[data-item]:has-text('vouchers')")
    assert "7" in tab.text("nav .count.hot")
    assert tab.attribute("[data-item]:has-text('vouchers') button.yes", "aria-disabled") == "true"
    tab.wait("[data-item]:has-text('vouchers') button.yes:not([aria-disabled])")
    other = opened(browser, started)
    other.click("[data-item]:has-text('vouchers') button.yes")
    tab.wait("[data-item]:has-text('vouchers')", "detached")
    other.close()
    tab.close()


def test_everything_can_be_done_with_the_keyboard(page: Any, browser: Browser) -> None:
    started, _, _ = page
    tab = opened(browser, started)
    names = tab.texts("[data-item] h3 a")
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
    tab.press("j")
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
    tab.press("/")
    tab.wait_for("document.activeElement.type === 'search'")
    tab.type("wareh")
    tab.wait_for("document.querySelectorAll('#results [data-item]').length === 1")
    assert "q=wareh" in tab.url()
    assert tab.text("#results td.name") == "stock-report"
    # Without the single keys: from the start of a page to a button by Tab alone.
    tab.goto(started.base + "/")
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
    tab.goto(started.base + "/")
    tab.click("[data-item]:has-text('refunds') a:has-text('Compare')")
    tab.wait(".diff")
    assert tab.texts(".diff ins") == ["0", "0"]
    tab.click("a:has-text('Unified')")
    assert any("5000" in text for text in tab.texts("td.add"))
    tab.click("button.no")
    tab.wait(".notice:has-text('refunds is declined.')")
    tab.goto(f"{started.base}/skills?q=stock")
    assert tab.texts("td.name") == ["stock-report"]
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
            admin = started.host.admin
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
            from skillwire.trust.approval import ALL_GRANTS

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
        assert tab.goto(started.base + path) == 200, name
        tab.wait("#live.on")
        tab.screenshot(str(PICTURES / f"{name}-{scheme}.png"), True)
        assert tab.axe(*(["color-contrast"] if scheme == "dark" else [])) == [], name
    assert tab.goto(started.base + "/nowhere") == 404
    assert tab.axe() == []
    assert [error for error in tab.seen()["errors"] if "404" not in error] == []
    assert all(url.startswith(started.base) for url in tab.seen()["requests"])
    tab.close()


def test_every_page_fits_a_narrow_screen(full: Any, browser: Browser) -> None:
    started, paths = full
    tab = opened(browser, started)
    tab.size(360, 720)
    for name, path in paths.items():
        tab.goto(started.base + path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, name
        tab.screenshot(str(PICTURES / f"{name}-narrow.png"), False)
    tab.goto(started.base + paths["skill"])
    titles = tab.evaluate(
        "[...document.querySelectorAll('.columns .panel > h2')]"
        ".sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map(a => a.innerText)"
    )
    assert [title.split()[0] for title in titles[:4]] == ["Your", "Files", "SKILL.md", "Frontmatter"]
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
            tab.goto(started.base + path)
            tab.wait("main")
            assert tab.evaluate("window.hacked") is None
            assert (
                tab.count("main script, main img, main iframe, main svg, main style, main base, main meta")
                == 0
            )
            hrefs = tab.evaluate("[...document.querySelectorAll('a')].map((link) => link.href)")
            assert all(href.startswith(started.base) for href in hrefs), path
            actions = tab.evaluate("[...document.forms].map((form) => form.action)")
            assert all(action.startswith(started.base) for action in actions), path
        tab.goto(started.base + nasty)
        assert "hidden text “ab”" in tab.text(".code")
        assert "<script>" in tab.text(".md")
        tab.click("button.yes")
        tab.wait(".notice:has-text('nasty is approved.')")
        seen = tab.seen()
        assert seen["dialogs"] == []
        assert [error for error in seen["errors"] if "404" not in error] == []
        assert all(url.startswith(started.base) for url in seen["requests"])
        tab.goto(started.base + "/servers")
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
            tab.goto(started.base + paths[name])
            tab.wait("#live.on")
            tab.screenshot(str(picture), False)
            tab.close()
        assert picture.read_bytes().startswith(b"\x89PNG")
