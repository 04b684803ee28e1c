"""Every mistake in a `skillwire.toml` is named with its file, its key and a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.errors import FormatError
from skillwire.host import ServerAddress
from skillwire.host.config.text import ServerText, parse_config
from skillwire.trust import ApprovalMode

FILE = Path("/somewhere/skillwire.toml")


def issues(text: str) -> list[str]:
    with pytest.raises(FormatError) as refused:
        parse_config(text, FILE)
    for issue in refused.value.issues:
        assert issue.file == str(FILE)
        assert issue.fix
    return [f"{issue.message} ({issue.fix})" for issue in refused.value.issues]


def test_a_full_file_is_read() -> None:
    config = parse_config(
        """
        directories = ["skills", "~/more"]
        default_directories = false
        disabled = ["noisy"]

        [servers.shop]
        url = "https://shop.example/mcp"
        headers = { X-Team = "${TEAM}" }
        token_env = "SHOP_TOKEN"
        approval = "pinned"
        include = ["refund*"]
        exclude = ["*-internal"]
        skills = true
        accept_drafts = true
        bare_scan = false
        connect_seconds = 3
        call_seconds = 2.5

        [servers.docs]
        command = "npx"
        args = ["-y", "docs"]
        env = { KEY = "value" }
        directory = "sub"

        [profiles.work]
        servers = ["shop"]
        default_directories = true
        disabled = ["games"]
        include = ["a*"]
        exclude = ["b*"]
        """,
        FILE,
    )
    assert config.directories == ("skills", "~/more")
    assert (config.default_directories, config.disabled) == (False, ("noisy",))
    assert config.servers["shop"] == ServerText(
        place=ServerAddress(
            url="https://shop.example/mcp", headers={"X-Team": "${TEAM}"}, token_env="SHOP_TOKEN"
        ),
        approval=ApprovalMode.PINNED,
        include=("refund*",),
        exclude=("*-internal",),
        skills=True,
        accept_drafts=True,
        bare_scan=False,
        connect_seconds=3,
        call_seconds=2.5,
    )
    assert config.servers["docs"].place == ServerAddress(
        command=("npx", "-y", "docs"), env={"KEY": "value"}, directory="sub"
    )
    assert config.profiles["work"].servers == ("shop",)


def test_an_empty_file_says_nothing() -> None:
    config = parse_config("", FILE)
    assert (config.servers, config.profiles, config.default_directories) == ({}, {}, None)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("diretories = []", "diretories is not known here (did you mean directories?)"),
        (
            "zzz = 1",
            "zzz is not known here (known are agents_may_install, approvers, bundled, default_directories, ",
        ),
        (
            '[servers.a]\ncommand = "x"\naproval = "never"',
            "servers.a.aproval is not known here (did you mean",
        ),
        ("[servers.a]\nurl = 5", "servers.a.url is a number, not text"),
        ('[servers.a]\nurl = ""', "servers.a.url is empty"),
        ('[servers.a]\nurl = "https://x"\ncommand = "y"', "servers.a has both url and command (keep the one"),
        ('[servers.a]\nurl = "ftp://x"', "servers.a.url is not an http:// or https:// URL"),
        ('[servers.a]\nurl = "https://x"\nargs = []', "servers.a.args belongs to a server with a command"),
        ('[servers.a]\ncommand = "x"\ntoken = "t"', "servers.a.token belongs to a server with a url"),
        (
            '[servers.a]\nurl = "https://x"\ntoken = "t"\ntoken_env = "T"',
            "servers.a has both token and token_env",
        ),
        ('[servers.a]\ncommand = "npx -y x"', "servers.a.command has spaces in it, and there are no args"),
        ('[servers.a]\nargs = ["x"]', "servers.a.args says how to reach a server, but not where it is"),
        (
            '[servers.a]\ncommand = "x"\napproval = "promt"',
            "servers.a.approval has no meaning as 'promt' (did you mean prompt?)",
        ),
        (
            '[servers.a]\ncommand = "x"\napproval = "zz"',
            "servers.a.approval has no meaning as 'zz' (it can be prompt, pinned, always, never)",
        ),
        ('[servers.a]\ncommand = "x"\nskills = "no"', "servers.a.skills is text, not true or false"),
        ('[servers.a]\ncommand = "x"\ninclude = "b*"', "servers.a.include is not a list of texts"),
        ('[servers.a]\ncommand = "x"\nenv = { A = 1 }', "servers.a.env is not a table of texts"),
        ('[servers.a]\ncommand = "x"\ncall_seconds = 0', "servers.a.call_seconds is not a number of seconds"),
        (
            '[servers.a]\ncommand = "x"\ncall_seconds = true',
            "servers.a.call_seconds is not a number of seconds",
        ),
        ("servers = 3", "servers is a number, not a table"),
        ("[servers]\na = 3", "servers.a is a number, not a table (write [servers.a])"),
        ('[servers."a b"]\ncommand = "x"', "servers: the label 'a b' has characters that are not allowed"),
        ('[servers.local]\ncommand = "x"', "servers: the label 'local' is reserved for local directories"),
        (
            '[servers.a]\ncommand = "x"\n[servers.A]\ncommand = "x"',
            "servers.A and servers.a differ in case alone",
        ),
        ("[profiles.p]\nserver = []", "profiles.p.server is not known here (did you mean servers?)"),
        ("default_directories = 1", "default_directories is a number, not true or false"),
        ("default_directories = 2024-01-01", "default_directories is a date or time, not true or false"),
        ("x = [", "it is not TOML: "),
    ],
)
def test_a_mistake_is_reported_with_its_key_and_a_fix(text: str, mistake: str) -> None:
    [issue] = issues(text)
    assert issue.startswith(mistake)


def test_all_mistakes_are_named_at_once() -> None:
    found = issues(
        'default_directories = 3\nfoo = 1\n[servers.a]\nurl = "ftp://x"\nskills = 0\n[profiles.p]\nbar = 1'
    )
    assert len(found) == 5


def test_no_value_of_a_key_that_may_be_secret_is_quoted() -> None:
    secret = "s3cr3t"
    text = f'[servers.a]\nurl = "{secret}"\ntoken = ["{secret}"]\nkey = "{secret}"\n'
    text += f'headers = {{ A = ["{secret}"] }}'
    assert secret not in " ".join(issues(text))


def test_a_command_with_spaces_in_its_path_is_a_path() -> None:
    config = parse_config('[servers.a]\ncommand = "/opt/my server/run"', FILE)
    assert config.servers["a"].place == ServerAddress(command=("/opt/my server/run",))


def test_what_is_parsed_shows_no_secret() -> None:
    secret = "s3cr3t"
    text = f'[servers.a]\nurl = "https://x/{secret}"\ntoken = "{secret}"\n'
    text += f'[servers.b]\ncommand = "x"\nargs = ["{secret}"]'
    assert secret not in repr(parse_config(text, FILE))
