"""Over 200 bad inputs, through the real `main`: one line that says what is wrong and what to do, and a code.

A sample with every command in it runs as real processes too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Run
from every import every
from skillwire.cli.commands import commands_of, names

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
WRONG = 2
HOST = ("list", "show x", "search x", "list --for-model", "load x", "load x y", "approve x")


def rows() -> list[tuple[str, int, str]]:
    """Command lines, their exit codes, and what the one line on standard error says."""
    table = [
        ("frobnicate", WRONG, "there is no command 'frobnicate'"),
        ("lnt .", WRONG, "did you mean lint?"),
        ("shw x", WRONG, "did you mean show?"),
        ("Serve .", WRONG, "did you mean serve?"),
        ("help nothing", WRONG, "there is no command 'nothing'"),
        ("--verzion", WRONG, "did you mean --version?"),
        ("--nope", WRONG, "is not an option of skillwire itself"),
        ("-- list", WRONG, "name a command first"),
        ("servers lst", WRONG, "did you mean list?"),
        ("servers frobnicate", WRONG, "add, remove, login"),
        ("config cach", WRONG, "did you mean cache?"),
        ("serve", WRONG, "PATH is missing: write skillwire serve"),
        ("lint", 4, "no skills in .: a skill is a directory with a SKILL.md; skillwire new"),
        ("verify", WRONG, "URL or COMMAND is missing: give the URL of a server"),
        ("show", WRONG, "NAME is missing: write skillwire show"),
        ("search", WRONG, "WORDS is missing: write skillwire search"),
        ("load", WRONG, "NAME is missing: write skillwire load"),
        ("load x --raw", WRONG, "--raw needs PATH"),
        ("revoke", WRONG, "NAME is missing: write skillwire revoke"),
        ("servers add", WRONG, "NAME is missing: write skillwire servers add"),
        ("servers add x", WRONG, "is missing: write skillwire servers add"),
        ("servers remove", WRONG, "NAME is missing: write skillwire servers remove"),
        ("config completion", WRONG, "SHELL is missing: write skillwire config completion SHELL"),
        ("config completion tcsh", WRONG, "SHELL must be one of bash, zsh, fish"),
        ("show a b c", WRONG, "unexpected argument 'c'"),
        ("list x", WRONG, "unexpected argument 'x'"),
        ("list --for-model x", WRONG, "unexpected argument 'x'"),
        ("config paths x", WRONG, "unexpected argument 'x'"),
        ("doctor x", WRONG, "unexpected argument 'x'"),
        ("config cache x", WRONG, "unexpected argument 'x'"),
        ("servers list x", WRONG, "unexpected argument 'x'"),
        ("serve . --htpp 1", WRONG, "did you mean --http?"),
        ("lint . --fix-it", WRONG, "there is no option --fix-it"),
        ("list --al", WRONG, "did you mean --all?"),
        ("approve x --alow-code", WRONG, "did you mean --allow-code?"),
        ("serve . -z", WRONG, "there is no option -z"),
        ("serve . --http", WRONG, "--http needs a value: --http HOST:PORT"),
        ("serve . --http --strict", WRONG, "--http needs a value"),
        ("serve . --http=", WRONG, "--http has an empty value"),
        ("serve . --http 1 --http 2", WRONG, "--http was given twice: give it once"),
        ("serve . --strict=yes", WRONG, "--strict takes no value: write --strict alone"),
        ("serve . --ttl abc", WRONG, "--ttl must be a number from 0 to"),
        ("serve . --ttl nan", WRONG, "--ttl must be a number from 0 to"),
        ("serve . --ttl -1", WRONG, "--ttl must be a number from 0 to"),
        ("serve . --ttl 1e9", WRONG, "--ttl must be a number from 0 to"),
        ("serve . --page-size 0", WRONG, "--page-size must be a whole number from 1 to 1,000"),
        ("serve . --page-size 1001", WRONG, "--page-size must be a whole number from 1 to 1,000"),
        ("serve . --page-size 1.5", WRONG, "--page-size must be a whole number from 1 to 1,000"),
        ("serve . --index d9", WRONG, "--index must be one of april-2026"),
        ("serve . --tools sometimes", WRONG, "--tools must be one of auto, always, never"),
        ("serve . --cache-scope all", WRONG, "--cache-scope must be one of public, private"),
        ("serve --print-config cursor", WRONG, "PATH is missing: write skillwire serve"),
        ("serve . --print-config emacs", WRONG, "--print-config must be one of claude-code"),
        ("serve . --token-file t", WRONG, "--token-file needs --http"),
        ("serve . --allow-host x", WRONG, "--allow-host needs --http"),
        ("serve . --stateless", WRONG, "--stateless needs --http"),
        ("serve . --http 99999", 4, "is not an address"),
        ("serve . --http 127.0.0.1:80999", 4, "is not an address"),
        ("serve . --http nowhere", 4, "is not an address"),
        ("serve . --http 0.0.0.0:0", 4, "--token-file"),
        ("serve nowhere", 4, "does not exist"),
        ("serve file.txt", 4, "is not a directory"),
        ("serve =x", 4, "prefix"),
        ("serve ../up=.", 4, "is not a prefix"),
        ("serve . --http 0 --token-file nofile", 4, "the token file nofile cannot be read"),
        ("serve . --http 0 --token-file empty.txt", 4, "empty.txt"),
        ("lint nowhere", 4, "does not exist"),
        ("lint empty", 4, "no skills in empty"),
        ("verify ftp://x", WRONG, "http:// or https://"),
        ("verify http://127.0.0.1:9/mcp", WRONG, "127.0.0.1:9"),
        ("verify --header nocolon http://127.0.0.1:9/", WRONG, "write a header as"),
        ("verify --token-env NO_SUCH_VARIABLE http://127.0.0.1:9/", WRONG, "NO_SUCH_VARIABLE is not set"),
        ("verify -- no-such-command-of-skillwire", WRONG, "is not installed"),
        ("verify node s.mjs --json", WRONG, "put -- before the command"),
        ("verify --timeout 0 x", WRONG, "--timeout must be a number from 0.1 to 3,600"),
        ("verify --max-skills 0 x", WRONG, "--max-skills must be a whole number of at least 1"),
        ("verify --protocol 1999 x", WRONG, "--protocol must be one of both"),
        ("search ***", WRONG, "WORDS has no letters or digits: say what to look for"),
        ("search x --limit 0", WRONG, "--limit must be a whole number from 1 to 1,000"),
        ("list --for-model --budget x", WRONG, "--budget must be a whole number"),
        ("load x y -o f", WRONG, "--output needs --raw"),
        ("load x y --raw --json", WRONG, "--raw and --json exclude each other: leave out one"),
        ("show x", 8, "skillwire servers add NAME URL"),
        ("load x", 8, "skillwire servers add NAME URL"),
        ("show skill://x/SKILL.md", 8, "skillwire"),
        ("revoke x", 8, "`skillwire list` shows"),
        ("servers remove nobody", 8, "no server is called nobody"),
        ("servers login", WRONG, "NAME is missing: write skillwire servers login"),
        ("servers login nobody", 8, "Add it first with `skillwire servers add NAME URL`, or give its URL"),
        ("servers login ftp://x", 4, "is not an http:// or https:// URL"),
        ("servers login x --port 70000", WRONG, "--port must be a whole number from 0 to 65,535"),
        ("servers logout nobody", 8, "no server is called nobody"),
        ("servers enable nobody", 8, "`skillwire servers` lists them"),
        ("servers disable nobody", 8, "`skillwire servers` lists them"),
        ("servers add x notaurl", WRONG, "neither a URL nor a program on the PATH"),
        ("servers add x localhost:1/mcp", WRONG, "write http://localhost:1/mcp"),
        ("new", WRONG, "PATH is missing: write skillwire new"),
        ("new BadName", 3, "use lowercase letters, digits and single hyphens"),
        ("sign nowhere", WRONG, "give --key FILE, or --keyless"),
        ("sign", WRONG, "DIR is missing: name the directory of a skill"),
        ("sign --check", WRONG, "DIR is missing: name the directory of a skill"),
        ("approvals import nowhere.json", 4, "give a file that `approvals export` wrote"),
        ("add", WRONG, "name a server's skill, a site, a repository or a folder"),
        ("add ./nowhere", 4, "name a folder with SKILL.md in it"),
        ("add https://127.0.0.1:9", 4, "nothing listens there: start the server, or check the address"),
        ("add docs", 4, "add it with `skillwire servers add docs URL`"),
        ("update --check", 4, "`skillwire add` creates one"),
        ("update --diff nobody", 4, "`skillwire add` creates one"),
        ("update nobody", 4, "`skillwire add` creates one"),
        ("rollback", WRONG, "NAME is missing: write skillwire rollback"),
        ("remove nobody", 4, "`skillwire add` creates one"),
        ("list --installed", 4, "`skillwire add` creates one"),
        ("sync --export", WRONG, "--export needs a value"),
        ("config agents x", WRONG, "unexpected argument 'x'"),
        ("servers add local https://x", 3, "local"),
        ("servers add x ftp://x", 3, "http:// or https:// URL"),
        ("servers add x npx -y y", WRONG, "put -- before the command"),
        ("servers add x https://x --env A=b", WRONG, "--env is for a command"),
        ("servers add x --header A=b -- y", WRONG, "--header is for a URL"),
        ("servers add x https://x --header nosign", WRONG, "--header: write NAME=VALUE"),
        ("servers add x https://x --approval maybe", WRONG, "--approval must be one of prompt"),
        ("servers add x https://x --approval always", WRONG, "add --user"),
        ("servers import --only nobody", WRONG, "no client has a server called nobody"),
        ("config cache --clear --on nobody", 8, "nobody"),
        ("doctor --timeout 0", WRONG, "--timeout must be a number from 0.1 to 3,600"),
        ("ui x", WRONG, "unexpected argument 'x'"),
        ("ui --http nowhere", 4, "is not an address: write HOST:PORT"),
        ("ui --http 0.0.0.0:0", 4, "give a token with --token-file"),
        ("ui --token-file nofile", 4, "the token file nofile cannot be read"),
        ("ui --dir nowhere", WRONG, "give the path of a directory of skills"),
        ("publish", WRONG, "PATH is missing: write skillwire publish"),
        ("publish x", WRONG, "--to URL for a registry, or --store URL"),
        ("publish empty --store sqlite:///r.db", WRONG, "needs --namespace NAME"),
        ("publish nowhere --store sqlite:///r.db --namespace acme", 4, "nowhere does not exist"),
        (
            "publish empty --store sqlite:///r.db --namespace acme",
            4,
            "a skill is a directory with a SKILL.md",
        ),
        ("registry frobnicate", WRONG, "choose from init, list, tokens"),
        ("registry", 4, "create it with skillwire registry init"),
        ("registry init --store mysql://x", 4, "write postgresql://USER@HOST/NAME"),
        ("registry init --store sqlite:///nowhere/r.db", 4, "cannot be used"),
        ("registry tokens frobnicate x", WRONG, "ACTION must be one of add, list, revoke"),
        ("registry tokens add", WRONG, "say which token"),
        ("registry namespace", WRONG, "NAME is missing: write skillwire registry namespace"),
        ("registry grants add x", WRONG, "say who and what: skillwire registry grants add SUBJECT ROLE"),
        ("registry grants add x frobnicate", WRONG, "ROLE must be one of read, publish, admin"),
        ("registry grants list x", WRONG, "all grants are listed: leave out SUBJECT"),
        ("registry list acme/pdf/x", WRONG, "NAMESPACE/NAME"),
        ("registry list acme --revoked", WRONG, "leave out NAMESPACE[/NAME]"),
        ("policy --on docs", WRONG, "write skillwire policy show NAME --on SERVER"),
        ("registry promote acme/pdf", WRONG, "VERSION is missing"),
        ("registry yank acme/pdf", WRONG, "VERSION is missing"),
        ("registry prune --keep 0", WRONG, "--keep must be a whole number of at least 1"),
        ("registry audit --verify", 4, "create it with skillwire registry init"),
        ("registry backup", WRONG, "FILE is missing: write skillwire registry backup"),
        ("registry restore nowhere", 4, "there is no such file"),
        ("gateway frobnicate", WRONG, "choose from run, install, uninstall, callers"),
        ("gateway", 4, "there is nothing to serve: add a server"),
        ("gateway --http nowhere", 4, "is not an address: write HOST:PORT"),
        ("gateway --http 0.0.0.0:0", 4, "give a token with --tokens or --token-file"),
        ("gateway --tokens t.toml", WRONG, "--tokens needs --http"),
        ("gateway --http 0 --tokens t.toml", 4, "skillwire gateway callers add NAME --tokens t.toml"),
        ("gateway --ui", WRONG, "--ui needs --http"),
        ("gateway --ui-url https://x", WRONG, "--ui-url needs --ui"),
        ("gateway --approval sometimes", WRONG, "--approval must be one of required, listed, locked"),
        ("gateway --approval locked", WRONG, "--approval locked needs --locked FILE"),
        ("gateway --locked nowhere", 4, "nowhere cannot be read"),
        ("gateway --rate -1", WRONG, "--rate must be a whole number of at least 0"),
        ("gateway install", WRONG, "CLIENT is missing: write skillwire gateway install"),
        ("gateway install emacs", WRONG, "CLIENT must be one of claude-code"),
        ("gateway uninstall emacs", WRONG, "CLIENT must be one of claude-code"),
        ("gateway install cursor --token-env X", WRONG, "--token-env needs --url"),
        ("gateway install cursor --url ftp://x", WRONG, "is not an http:// or https:// URL"),
        ("gateway callers", WRONG, "--tokens is missing: write --tokens FILE"),
        ("gateway callers --tokens nowhere", 4, "skillwire gateway callers add NAME --tokens nowhere"),
        ("gateway callers add x", WRONG, "--tokens is missing: write --tokens FILE"),
        ("gateway callers add a/b --tokens t.toml", 3, "use letters, digits"),
        ("gateway callers remove x --tokens t.toml", 4, "`skillwire gateway callers` lists them"),
        ("approvals decline", WRONG, "NAME is missing: write skillwire approvals decline"),
        ("approvals decline --all", WRONG, "--all: name the server with --on SERVER"),
        ("approvals decline x", 8, "no skill is called x. There are no skills yet"),
        ("trust nowhere", 4, "is not a directory: name that of a project"),
        ("trust file.txt", 4, "is not a directory: name that of a project"),
        ("trust --list --revoke", WRONG, "--list and --revoke exclude each other"),
        ("trust --list empty", WRONG, "--list covers all projects: leave out DIR"),
        ("add ~nobody-here/skills", 4, "~nobody-here/skills"),
        ("add ~nobody-here/skills.tar.gz", 4, "~nobody-here/skills.tar.gz"),
        ("add ~nobody-here/skills-lock.json", 4, "~nobody-here/skills-lock.json"),
        ("lint ~nobody-here/skills", 4, "~nobody-here/skills"),
        ("list --dir ~nobody-here/skills", WRONG, "give the path of a directory of skills"),
        ("sync", 4, "`skillwire add` creates one"),
        ("sync x", WRONG, "unexpected argument 'x'"),
        ("sync --check --force", WRONG, "--check, --adopt and --force exclude each other"),
        ("sync --frozen --adopt", WRONG, "--frozen excludes --adopt"),
        ("sync --user --check", 4, "`skillwire add --user` creates it"),
        ("servers list --timeout 3", WRONG, "--timeout needs --check"),
        ("list --on nobody", 8, "no server or directory is called nobody; known: none"),
        ("list --config bad.toml", 3, "bad.toml"),
        ("list --config nowhere.toml", 4, "nowhere.toml"),
        (
            "list --no-config --profile x",
            WRONG,
            "--profile and --no-config exclude each other: leave out one",
        ),
    ]
    for command in HOST[:4]:
        table += [
            (f"{command} --server nosign", WRONG, "--server: write NAME=URL or 'NAME=command args'"),
            (f"{command} --server a=ftp://x", WRONG, "http:// or https:// URL"),
            (f"{command} --dir nowhere", WRONG, "give the path of a directory of skills"),
            (f"{command} --style emacs", WRONG, "--style: "),
            (f"{command} --profile nobody", 3, "nobody"),
            (f"{command} --timeout 0", WRONG, "--timeout must be a number from 0.1 to 3,600"),
        ]
    return [*table, ("list --server a=x --server A=y", WRONG, "choose another name")]


ROWS = rows()


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    folder = tmp_path / "work"
    (folder / "empty").mkdir(parents=True)
    (folder / "file.txt").write_text("", "utf-8")
    (folder / "empty.txt").write_text("\n", "utf-8")
    (folder / "bad.toml").write_text("[servers\n", "utf-8")
    monkeypatch.chdir(folder)


def sample() -> list[tuple[str, int, str]]:
    """The last row of each command, and of each group of commands."""
    last = {row[0].split()[0]: row for row in ROWS}
    return [last[name] for name in names() if name in last]


def test_there_are_enough_of_them() -> None:
    assert len({line for line, _, _ in ROWS}) == len(ROWS) >= 200
    assert len(sample()) >= 20


@every("command", [command.name for name in names() for command in commands_of(name)])
def test_every_command_refuses_an_option_that_it_does_not_have(command: str, run: Run) -> None:
    code, out, err = run(*command.split(), "--frobnicate")
    assert (code, out) == (WRONG, "")
    assert err == (
        f"skillwire {command}: there is no option --frobnicate (see: skillwire {command} --help)\n"
    )


@pytest.mark.process  # One of them names a program to start.
@every("line, code, said", ROWS)
def test_a_bad_input_is_one_line_that_helps(run: Run, line: str, code: int, said: str) -> None:
    ended, out, err = run(*line.split())
    assert (ended, out) == (code, ""), err
    [only] = err.splitlines()
    assert only.startswith("skillwire")
    assert said in only, json.dumps(only)
    if code == WRONG and not line.startswith("verify"):
        assert only.endswith("--help)")


FORKS = """
import gc, json, os, pkgutil, sys
from importlib import import_module
import anyio, cryptography, httpx2, mcp, pydantic, rich, sqlalchemy, starlette, tomlkit, uvicorn, yaml
import skillwire.cli
from skillwire.host import SkillHost
from skillwire.install import Installer
from skillwire.registry import RegistryApp

for module in pkgutil.iter_modules(skillwire.cli.__path__, "skillwire.cli."):
    import_module(module.name)
gc.freeze()
lines = json.loads(sys.argv[1])
for number, words in enumerate(lines):
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for descriptor, name in enumerate(("/dev/null", f"{number}.out", f"{number}.err")):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), descriptor)
sys.argv = ["skillwire", *words]
from skillwire.cli import main
main()
"""
"""A process for each line, forked from one that has imported what they need: that takes longest."""


@pytest.mark.process
@pytest.mark.slow
def test_a_sample_of_every_command_says_the_same_as_a_real_process() -> None:
    rows = sample()
    lines = json.dumps([line.split() for line, _, _ in rows])
    forked = subprocess.run([sys.executable, "-c", FORKS, lines], capture_output=True, text=True, check=True)
    codes = list(map(int, forked.stdout.split()))
    assert codes == [code for _, code, _ in rows]
    for number, (line, _, said) in enumerate(rows):
        assert Path(f"{number}.out").read_text() == "", line
        [only] = Path(f"{number}.err").read_text().splitlines()
        assert only.startswith("skillwire")
        assert said in only


@pytest.mark.process
def test_the_program_that_is_installed_says_the_same() -> None:
    line, code, said = next(row for row in ROWS if row[0].startswith("show skill://"))
    ran = subprocess.run([SKILLWIRE, *line.split()], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (code, "", 1)
    assert said in ran.stderr
