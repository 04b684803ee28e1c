"""The user's and the project's files together: everything narrows, and nothing is widened in silence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from skillwire.errors import FormatError
from skillwire.host import HostConfig, Layer, LocalDirectory, ServerConfig
from skillwire.host.config.config import combine
from skillwire.host.config.text import ConfigText, parse_config
from skillwire.skill import DYNAMIC, SkillEntry, make_uri
from skillwire.trust import ApprovalMode

USER = Path("/home/me/.config/skillwire/skillwire.toml")
PROJECT = Path("/project/skillwire.toml")
SHOP = '[servers.shop]\nurl = "https://shop.example/mcp"\n'


def both(
    user: str = "",
    project: str = "",
    *,
    profile: str | None = None,
    trusted: bool = True,
    environment: Mapping[str, str] | None = None,
) -> HostConfig:
    files: list[ConfigText] = [parse_config(user, USER), parse_config(project, PROJECT)]
    return combine(*files, profile=profile, environment=environment or {}, trusted=trusted)


def mistakes(
    user: str = "", project: str = "", *, profile: str | None = None, **environment: str
) -> list[str]:
    with pytest.raises(FormatError) as refused:
        both(user, project, profile=profile, environment=environment)
    return [str(issue) for issue in refused.value.issues]


def entry(name: str) -> SkillEntry:
    return SkillEntry(make_uri([name, "SKILL.md"]), {"name": name, "description": "Does."}, DYNAMIC)


def admitted(config: HostConfig, *names: str) -> list[str]:
    selection = config.servers["shop"].selection
    return [name for name in names if selection.admits(entry(name))]


def test_servers_of_both_files_are_used() -> None:
    config = both(SHOP, '[servers.docs]\ncommand = "docs"\nargs = ["--all"]\ndirectory = "sub"')
    assert config.servers == {
        "shop": ServerConfig(url="https://shop.example/mcp"),
        "docs": ServerConfig(command=("docs", "--all"), directory="/project/sub"),
    }
    assert config.files == (USER, PROJECT)


def test_what_a_project_adds_waits_for_trust_and_what_it_narrows_does_not() -> None:
    user = SHOP + '[servers.both]\ncommand = "both"'
    project = """
        directories = ["skills"]
        disabled = ["noise"]
        [servers.shop]
        exclude = ["returns"]
        [servers.both]
        command = "both"
        [servers.added]
        command = "${NOT_SET}"
        [servers.off]
        command = "off"
        skills = false
        """
    config = both(user, project, trusted=False)
    assert list(config.servers) == ["shop", "both"]
    assert admitted(config, *NAMES) == ["refunds", "refund-all", "Secret-refunds"]
    assert (config.directories, config.project_directories, config.disabled) == ((), (), ("noise",))
    assert "names directories of skills" in config.problems[0]
    assert [(server.label, server.file) for server in config.untrusted] == [("added", PROJECT)]
    assert {server.label: server.trusted for server in config.configured} == {
        "shop": True,
        "both": True,
        "added": False,
        "off": False,
    }


NAMES = ("refunds", "refund-all", "returns", "Secret-refunds")


@pytest.mark.parametrize(
    ("user", "project", "left"),
    [
        ("", "", NAMES),
        ('include = ["refund*"]', "", ("refunds", "refund-all")),
        ('include = ["REFUND*"]', "", ("refunds", "refund-all")),
        ('include = ["re*"]', 'include = ["*s"]', ("refunds", "returns")),
        ('exclude = ["refunds"]', 'exclude = ["RETURNS"]', ("refund-all", "Secret-refunds")),
        ('include = ["re*"]', 'include = ["secret*"]', ()),
        ("include = []", "", ()),
        ("include = []", 'include = ["*"]', ()),
        ('include = ["*"]', 'exclude = ["secret-*"]', ("refunds", "refund-all", "returns")),
    ],
)
def test_includes_intersect_excludes_unite_and_case_is_ignored(
    user: str, project: str, left: tuple[str, ...]
) -> None:
    config = both(SHOP + user, f"[servers.shop]\n{project}")
    assert admitted(config, *NAMES) == list(left)


def test_hidden_characters_do_not_bypass_an_exclude() -> None:
    config = both(SHOP + 'exclude = ["refunds"]')
    hidden = SkillEntry(make_uri(["a", "SKILL.md"]), {"name": "ref\u200bunds"}, DYNAMIC)
    assert not config.servers["shop"].selection.admits(hidden)


@pytest.mark.parametrize(
    ("user", "project", "policy"),
    [
        ("always", "prompt", ApprovalMode.PROMPT),
        ("always", "", ApprovalMode.ALWAYS),
        ("prompt", "never", ApprovalMode.NEVER),
        ("never", "prompt", ApprovalMode.NEVER),
        ("pinned", "prompt", ApprovalMode.PINNED),
        ("", "", ApprovalMode.PROMPT),
    ],
)
def test_the_stricter_policy_holds(user: str, project: str, policy: ApprovalMode) -> None:
    says = [f'approval = "{value}"\n' if value else "" for value in (user, project)]
    assert both(SHOP + says[0], f"[servers.shop]\n{says[1]}").servers["shop"].approval is policy


def test_a_project_cannot_say_that_nobody_is_asked() -> None:
    [mistake] = mistakes("", SHOP + 'approval = "always"')
    assert mistake.startswith(f'{PROJECT}: servers.shop.approval is "always", which a project cannot say')


def test_a_project_cannot_move_a_server_of_the_user() -> None:
    [mistake] = mistakes(SHOP + 'token = "s3cr3t"', '[servers.shop]\nurl = "https://evil.example/mcp"')
    assert mistake.startswith(f"{PROJECT}: servers.shop is another server in your own file")
    assert "s3cr3t" not in mistake


def test_two_files_may_agree_on_a_server() -> None:
    assert list(both(SHOP, SHOP).servers) == ["shop"]


def test_labels_that_differ_in_case_alone_are_a_mistake_across_files_too() -> None:
    [mistake] = mistakes(SHOP, '[servers.Shop]\nurl = "https://shop.example/mcp"')
    assert "servers.Shop is called shop in your own file" in mistake


def test_a_restriction_of_an_unknown_server_is_a_mistake_in_a_project_and_ignored_in_the_users_file() -> None:
    assert both('[servers.shop]\napproval = "never"').servers == {}
    [mistake] = mistakes("", '[servers.shop]\napproval = "never"')
    assert mistake.startswith(f"{PROJECT}: servers.shop has neither url nor command")


def test_a_server_whose_skills_are_disabled_is_not_connected() -> None:
    config = both(SHOP, "[servers.shop]\nskills = false")
    assert config.servers == {}
    assert [(server.label, server.used) for server in config.configured] == [("shop", False)]


def test_drafts_and_bare_scans_must_be_enabled_and_can_be_disabled() -> None:
    yes = SHOP + "accept_drafts = true\nbare_scan = true"
    assert both(yes).servers["shop"].accept_drafts
    assert both(yes).servers["shop"].bare_scan
    assert not both(yes, "[servers.shop]\naccept_drafts = false").servers["shop"].accept_drafts
    assert not both(SHOP).servers["shop"].bare_scan


def test_the_last_value_for_seconds_applies() -> None:
    server = both(SHOP + "connect_seconds = 3\ncall_seconds = 4", "[servers.shop]\ncall_seconds = 5")
    assert (server.servers["shop"].connect_seconds, server.servers["shop"].call_seconds) == (3, 5)


TWO = SHOP + '[servers.docs]\ncommand = "docs"\n[profiles.work]\nservers = ["SHOP"]\n'


def test_a_profile_decides_what_is_connected_at_all() -> None:
    assert list(both(TWO).servers) == ["shop", "docs"]
    assert list(both(TWO, profile="work").servers) == ["shop"]
    assert list(both(TWO, "[profiles.work]\nservers = []", profile="work").servers) == []


def test_a_profile_narrows_the_rest_too() -> None:
    text = TWO + 'default_directories = false\ndisabled = ["games"]\ninclude = ["re*"]\nexclude = ["returns"]'
    config = both(text, 'disabled = ["noise"]', profile="work")
    assert (config.default_directories, config.disabled) == (False, ("noise", "games"))
    assert admitted(config, *NAMES) == ["refunds", "refund-all"]
    assert both(text).default_directories


@pytest.mark.parametrize(
    ("profile", "mistake"),
    [
        ("wrok", "no profile is called wrok (did you mean work?)"),
        ("x", "no profile is called x (known: work)"),
    ],
)
def test_an_unknown_profile_is_named(profile: str, mistake: str) -> None:
    assert mistakes(TWO, profile=profile) == [mistake]


def test_a_profile_that_names_no_server_is_a_mistake() -> None:
    [mistake] = mistakes(SHOP, '[profiles.p]\nservers = ["shpo"]')
    assert (
        mistake
        == f"{PROJECT}: profiles.p.servers names shpo, which is not a server here (did you mean shop?)"
    )


def test_variables_are_filled_in_everywhere() -> None:
    config = both(
        """
        directories = ["${PLACE}/skills"]
        [servers.a]
        url = "https://${HOST}/mcp"
        headers = { X = "a ${KEY} b", Y = "$${KEY}" }
        token = "${KEY}"
        [servers.b]
        command = "${PLACE}/run"
        args = ["--key", "${KEY}"]
        env = { K = "${KEY}" }
        [servers.c]
        url = "https://c.example"
        token_env = "KEY"
        """,
        environment={"HOST": "h.example", "KEY": "k", "PLACE": "/opt"},
    )
    assert config.servers["a"] == ServerConfig(
        url="https://h.example/mcp", headers={"X": "a k b", "Y": "${KEY}"}, token="k"
    )
    assert config.servers["b"] == ServerConfig(command=("/opt/run", "--key", "k"), env={"K": "k"})
    assert config.servers["c"].token == "k"
    assert config.directories == (Path("/opt/skills"),)


def test_every_variable_that_is_not_set_is_named_with_its_key() -> None:
    text = '[servers.a]\nurl = "https://x"\nheaders = { X = "${ONE}" }\ntoken_env = "TWO"'
    config = both(SHOP + text, environment={"OTHER": "s3cr3t"})
    assert list(config.servers) == ["shop"]
    [skipped] = config.skipped
    assert "servers.a.headers.X needs the variable 'ONE', which is not set" in skipped.reason
    assert "servers.a.token_env needs the variable 'TWO', which is not set" in skipped.reason
    assert "s3cr3t" not in skipped.reason


def test_a_variable_of_a_server_that_is_not_used_need_not_be_set() -> None:
    text = SHOP + '[servers.a]\nurl = "https://x"\ntoken_env = "NOT_SET"\n[profiles.p]\nservers = ["shop"]'
    assert list(both(text, profile="p").servers) == ["shop"]


def test_a_url_is_checked_again_once_it_is_filled_in() -> None:
    config = both('[servers.a]\nurl = "${URL}"', environment={"URL": "file:///s3cr3t"})
    [skipped] = config.skipped
    assert "is not an http:// or https:// URL" in skipped.reason
    assert "s3cr3t" not in skipped.reason


def test_directories_start_at_their_file_and_each_counts_once() -> None:
    config = both('directories = ["skills", "/a", "skills"]', 'directories = ["skills", "/a", ".", ".."]')
    assert config.directories == (USER.parent / "skills", Path("/a"))
    assert config.project_directories == (PROJECT.parent / "skills", PROJECT.parent)
    assert ["outside the project" in problem for problem in config.problems] == [True, True]


WIDE = "accept_drafts = true\nbare_scan = true\nconnect_seconds = 3600\ncall_seconds = 0.001\n"


def test_a_project_that_is_not_trusted_widens_no_server_of_the_user() -> None:
    project = f"[servers.shop]\n{WIDE}"
    wide = both(SHOP, project, trusted=False).servers["shop"]
    assert wide == both(SHOP, trusted=False).servers["shop"]
    trusted = both(SHOP, project).servers["shop"]
    assert (trusted.accept_drafts, trusted.bare_scan, trusted.call_seconds) == (True, True, 0.001)


def test_a_project_that_is_not_trusted_may_narrow_what_the_user_allows() -> None:
    project = "[servers.shop]\naccept_drafts = false\nbare_scan = false\n"
    shop = both(SHOP.rstrip() + f"\n{WIDE}", project, trusted=False).servers["shop"]
    assert (shop.accept_drafts, shop.bare_scan, shop.connect_seconds) == (False, False, 3600)


def test_variables_in_directories_of_an_untrusted_project_are_not_filled_in() -> None:
    config = both("", 'directories = ["${SECRET}"]', trusted=False, environment={"SECRET": "s3cr3t"})
    assert "s3cr3t" not in repr(config)
    assert config.project_directories == ()


def test_the_default_profile_applies_when_none_is_named() -> None:
    text = (
        SHOP + '[servers.other]\ncommand = "other"\n'
        '[profiles.default]\nmcp_servers = ["other"]\nstyle = "codex"\n[profiles.all]\n'
    )
    config = both(text)
    assert (list(config.servers), config.style) == (["other"], "codex")
    assert list(both(text, profile="all").servers) == ["shop", "other"]


def test_a_command_of_the_user_starts_at_no_place_of_the_project_and_a_projects_in_the_project() -> None:
    config = both('[servers.mine]\ncommand = "npx"', '[servers.theirs]\ncommand = "./run.sh"')
    assert config.servers["mine"].directory == ""
    assert config.servers["theirs"].directory == str(PROJECT.parent)
    assert config.servers["theirs"].command == (str(PROJECT.parent / "run.sh"),)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://x.example/mcp", "HTTPS://X.example:443/mcp", True),
        ("https://x.example/mcp?token=a", "https://x.example/mcp?token=b", True),
        ("https://u:p@x.example/mcp#f", "https://x.example/mcp", True),
        ("https://x.example/mcp?team=a", "https://x.example/mcp?team=b", False),
        ("https://x.example/a", "https://x.example/b", False),
        ("https://x.example/", "http://x.example/", False),
        ("https://x.example:8443/", "https://x.example/", False),
        ("https://x.example:port/", "https://x.example/", False),
    ],
)
def test_a_server_is_identified_by_its_place_and_not_by_its_secrets(one: str, other: str, same: bool) -> None:
    assert (ServerConfig(url=one).identity == ServerConfig(url=other).identity) is same


def test_a_command_is_identified_by_its_words_and_where_it_starts() -> None:
    here = ServerConfig(command=("npx", "docs"))
    assert here.identity == ServerConfig(command=("npx", "docs"), env={"TOKEN": "x"}).identity
    assert here.identity != ServerConfig(command=("npx", "other")).identity
    assert here.identity != ServerConfig(command=("npx", "docs"), directory="/project").identity


ACME = '[publishers.acme]\nkey = "acme.pub"\n'


def test_a_server_can_require_a_publisher_of_the_users_file() -> None:
    config = both(ACME + SHOP + 'require = "acme"\n')
    assert config.servers["shop"].require == ("acme",)
    [publisher] = config.publishers
    assert (publisher.name, publisher.directory, publisher.text.key) == ("acme", USER.parent, "acme.pub")


def test_a_project_can_require_a_publisher_and_cannot_add_one() -> None:
    config = both(ACME + SHOP, '[servers.shop]\nrequire = "acme"\n')
    assert config.servers["shop"].require == ("acme",)
    [mistake] = mistakes(SHOP, ACME)
    assert "a project cannot add a publisher for its user" in mistake


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SHOP + 'require = "acmee"\n' + ACME, "names acmee, which is not a publisher here"),
        ("[publishers.acme]\n", "has no key, root or identity"),
        ('[publishers.acme]\nidentity = "a@b.example"\n', "has no issuer beside it"),
        ('[publishers.acme]\nkey = "k"\ntimestamp_root = "t"\n', "belongs to a publisher with a root"),
        ('[publishers.acme]\nkey = "k"\nkeys = "k"\n', "keys"),
    ],
)
def test_a_publisher_that_cannot_work_is_a_mistake(text: str, message: str) -> None:
    assert any(message in mistake for mistake in mistakes(text))


@pytest.mark.parametrize(("line", "key"), [('bundled = ["x"]', "bundled"), ('model = "openai:x"', "model")])
def test_a_project_cannot_bundle_skills_or_choose_the_model(line: str, key: str) -> None:
    [mistake] = mistakes("", line)
    assert mistake.startswith(f"{PROJECT}: {key}: a project cannot say this for its user")


def test_bundled_directories_come_first_and_in_the_layer_of_the_agent() -> None:
    config = both('bundled = ["/agent/skills"]\ndirectories = ["/mine"]', "")
    first, second = config.local_directories
    assert isinstance(first, LocalDirectory)
    assert (str(first.path), first.layer) == ("/agent/skills", Layer.BUNDLED)
    assert str(second) == "/mine"
