"""`skillwire new`, `lint`, `sign` and `publish`: start a skill, check and repair it, sign it, publish it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.commands.registry import REGISTRY_TOKEN_VARIABLE
from skillwire.cli.host_options import HostOptions, password, with_host
from skillwire.cli.output import Screen, counted, error, info, printable, show_json, write
from skillwire.cli.registry import open_store, operator, store_url
from skillwire.errors import InstalledInPart, Severity, SourceError, UsageError
from skillwire.skill import PROFILES, SKILL_FILE, new_skill_md
from skillwire.skill.lint_report import REPORTS, as_text, issues_of, without
from skillwire.sources.directory.authoring import FileFix, find_fixes, lint_paths

if TYPE_CHECKING:
    from skillwire.host import SkillHost
    from skillwire.registry import LintedSkill, Published, PublishResult
    from skillwire.trust import Publisher, SignatureVerdict

_ISSUES_FOUND = 1
_NOT_SIGNED = 6


def lint(
    *,
    paths: tuple[Path, ...],
    output: str,
    as_json: bool,
    strict: bool,
    ignore: tuple[str, ...],
    errors_only: bool,
    show_all: bool,
    fix: bool,
    diff: bool,
    unsafe: bool,
    rename_directories: bool,
    watch: bool,
    profile: str | None,
) -> int:
    """Check skills: a skill with errors is not served, warnings name hosts that refuse it, advice improves
    it."""
    paths = paths or (Path(),)
    ignored = frozenset(rule for given in ignore for rule in given.replace(",", " ").split())
    output = "json" if as_json else output
    if (unsafe or rename_directories) and not (fix or diff):
        raise UsageError(
            "--unsafe and --rename-directories say what --fix or --diff may change: add one of them"
        )

    def check() -> int:
        checked = paths
        if fix or diff:
            fixes = find_fixes(paths, unsafe=unsafe, rename_directories=rename_directories)
            _repair(fixes, is_written=fix and not diff)
            if diff:
                return 0
            moved = {
                one.path.parent: one.path.parent.with_name(one.directory) for one in fixes if one.directory
            }
            checked = tuple(moved.get(path, path) for path in paths)
        demands = PROFILES[profile] if profile else None
        linted = without(lint_paths(checked, profile=demands), ignored, errors_only=errors_only)
        write(
            as_text(linted, show_all=show_all, clean=printable)
            if output == "text"
            else REPORTS[output](linted)
        )
        failing = [Severity.ERROR, Severity.WARNING, *([Severity.ADVICE] if strict else [])]
        return _ISSUES_FOUND if any(issues_of(linted, severity) for severity in failing) else 0

    return _check_again_and_again(paths, check) if watch else check()


def new(*, path: Path, description: str | None) -> int:
    """Write a new skill from a template, of which `lint` names what is not replaced yet."""
    directory = Path(path)
    text = new_skill_md(directory.name or directory.resolve().name, description or "")
    file = directory / SKILL_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise SourceError(f"{file} already exists; choose another name") from None
    except OSError as error:
        raise SourceError(f"{file} cannot be written: {error.strerror}") from None
    write(printable(f"Wrote {file}. Edit it, then run: skillwire lint {directory}"))
    return 0


def _repair(fixes: Sequence[FileFix], *, is_written: bool) -> None:
    """Show what can be repaired as a diff, and repair it."""
    for found in fixes:
        for line in found.diff.splitlines():
            write(printable(line))
        if is_written:
            found.write()
    done = "Repaired" if is_written else "Would repair"
    info(f"{done} {counted(len(fixes), 'file')}" if fixes else "Nothing to repair")


def _check_again_and_again(paths: tuple[Path, ...], check: Callable[[], int]) -> int:
    """Check now, and after every change, until interrupted."""
    import watchfiles

    from skillwire.errors import SkillwireError
    from skillwire.skill import belongs_to_skill

    def run() -> int:
        try:
            return check()
        except SkillwireError as error:
            info(str(error))
            return error.exit_code

    code = run()
    try:
        for _ in watchfiles.watch(
            *paths,
            watch_filter=lambda _change, path: all(map(belongs_to_skill, Path(path).parts)),
            raise_interrupt=True,
        ):
            write("")
            code = run()
    except KeyboardInterrupt:
        pass
    return code


def sign(
    *,
    name: str | None,
    key: Path | None,
    new_key: Path | None,
    check: bool,
    cert: Path | None,
    password_env: str | None,
    keyless: bool,
    publisher: str | None,
    root: Path | None,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Create a key, sign a skill with one, or check who signed it."""
    if new_key is not None:
        if name is not None or key is not None or check or cert is not None or keyless:
            raise UsageError("--new-key FILE only creates a key: sign with it afterwards, with --key FILE")
        _create_key(new_key, password_env, as_json=as_json)
        return 0
    if name is None:
        raise UsageError("DIR is missing: name the directory of a skill, or create a key with --new-key FILE")
    if check:
        if cert is not None or keyless or password_env is not None:
            raise UsageError("--check takes --key, --root, --publisher and --on: leave out the others")
        return _check_signature(name, _given_publisher(publisher, key, root), publisher, on, options, as_json)
    if publisher is not None or root is not None or on is not None:
        raise UsageError("--publisher, --root and --on need --check")
    if keyless == (key is not None):
        raise UsageError("give --key FILE, or --keyless")
    if cert is not None and key is None:
        raise UsageError("--cert needs --key, the private key of the certificate")
    if name.endswith(".toml") and key is not None:
        from skillwire.cli.policy import sign_policy
        from skillwire.sources import load_private_key

        sign_policy(Path(name), load_private_key(key, password(password_env)), as_json=as_json)
        return 0
    _sign(Path(name), key, cert, password_env, as_json=as_json)
    return 0


def _sign(
    directory: Path, key: Path | None, cert: Path | None, password_env: str | None, *, as_json: bool
) -> None:
    """Sign a skill, without a key with Sigstore, and write its signature into its directory."""
    from skillwire.cli.output import Screen, show_json
    from skillwire.sources.directory import authoring

    folder = authoring.read_folder(directory)
    if key is None:
        written = authoring.sign_keyless(folder)
    else:
        private = authoring.load_private_key(key, password(password_env))
        written = authoring.sign_folder(folder, private, authoring.load_chain(cert) if cert else ())
    files = len([name for name in folder.files if name != written.name])
    if as_json:
        show_json({"skill": folder.name, "signature": str(written), "files": files})
        return
    Screen().line(
        ("Signed ", "green"), f"{printable(folder.name)}, {counted(files, 'file')}: {printable(str(written))}"
    )


def _create_key(file: Path, password_env: str | None, *, as_json: bool) -> None:
    """Create an elliptic curve key (P-256); a file that exists is never replaced."""
    from skillwire.cli.output import Screen, show_json
    from skillwire.sources.directory.authoring import new_key_pair

    public = new_key_pair(file, password(password_env))
    if as_json:
        show_json({"private_key": str(file), "public_key": str(public)})
        return
    screen = Screen()
    screen.line(("Wrote ", "green"), f"{printable(str(file))}. Keep it secret.")
    screen.line(
        ("Wrote ", "green"), f"{printable(str(public))}. Give it to whoever should recognize your skills:"
    )
    screen.line(f'  [publishers.NAME]\n  key = "{printable(public.name)}"')


def _check_signature(
    name: str,
    given: Publisher | None,
    publisher: str | None,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Print who signed a skill; returns 0 only if the signature covers exactly its files."""
    from datetime import UTC, datetime

    from skillwire.sources.directory.authoring import check_folder, read_files

    if Path(name).is_dir() or Path(name).name == "SKILL.md":
        publishers = [given] if given else _configured(options, publisher)
        return _report(name, check_folder(read_files(Path(name)), publishers, now=datetime.now(UTC)), as_json)
    verdicts: list[tuple[str, SignatureVerdict]] = []

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        publishers = [given] if given else _configured(options, publisher)
        verdicts.append((skill.handle, await host.signatures.check(skill, publishers)))

    with_host(options, action)
    return _report(*verdicts[0], as_json)


def _report(name: str, verdict: SignatureVerdict, as_json: bool) -> int:
    from skillwire.cli.output import Screen, show_json

    if as_json:
        show_json({"skill": name, "signature": verdict.as_json()})
    else:
        screen = Screen()
        screen.line(f"{printable(name)}: ", (str(verdict), "green" if verdict.is_signed else "yellow"))
        for path in verdict.differing:
            screen.line(f"  differs: {printable(path)}")
        if verdict.state == "unknown-publisher":
            screen.wrapped(
                "Add the publisher to skillwire.toml, or name its key with --key, if you know whose it is."
            )
    return 0 if verdict.is_signed else _NOT_SIGNED


def _given_publisher(name: str | None, key: Path | None, root: Path | None) -> Publisher | None:
    from skillwire.sources import read_pem
    from skillwire.trust import Publisher

    if key is None and root is None:
        return None
    return Publisher.from_pem(
        name or (key or root or Path()).stem,
        key=read_pem(key) if key else None,
        root=read_pem(root) if root else None,
    )


def _configured(options: HostOptions, name: str | None) -> list[Publisher]:
    """The publishers of the configuration, or the one of this name."""

    publishers = options.publishers()
    if name is None:
        return publishers
    chosen = [one for one in publishers if one.name == name]
    if not chosen:
        raise SourceError(f"no publisher is called {name}: add it to skillwire.toml, or give --key or --root")
    return chosen


def publish(
    *,
    paths: tuple[str, ...],
    to: str | None,
    store: str | None,
    namespace: str | None,
    channel: str | None,
    release: str | None,
    promote: bool,
    expect: str | None,
    sign_key: Path | None,
    policy: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Publish each skill, over HTTP or into a store."""
    url = store_url(store) if to is None else store
    if (to is None) == (url is None):
        raise UsageError("say where: --to URL for a registry, or --store URL for its database")
    database = None if url is None else open_store(url)
    if database is not None and namespace is None:
        raise UsageError("a store needs --namespace NAME")
    if policy and database is None:
        raise UsageError("--policy is for --store: a registry obeys the policy of its own machine")
    from skillwire.host import PolicyFiles
    from skillwire.registry import PublishRules, publish_each, publish_over_http, publish_to_store

    rules = PublishRules(PolicyFiles(policy))

    def publish_one(folder: LintedSkill) -> Published:
        where, pointing = namespace or "", channel or "stable"
        if database is not None:
            return publish_to_store(
                folder,
                database,
                namespace=where,
                channel=pointing,
                promote=promote,
                expect=expect,
                by=operator(),
                rules=rules,
            )
        token = os.environ.get(REGISTRY_TOKEN_VARIABLE)
        return publish_over_http(
            folder, to or "", namespace=where, channel=pointing, promote=promote, expect=expect, token=token
        )

    outcomes: list[PublishResult] = []
    for outcome in publish_each(map(Path, paths), publish_one, version=release, sign_key=sign_key):
        outcomes.append(outcome)
        if not as_json:
            _show_outcome(outcome, promote=promote)
    if as_json:
        show_json(
            {
                "published": [_published(one.published) for one in outcomes if one.published],
                "failed": [{"path": one.path, "error": str(one.error)} for one in outcomes if one.error],
            }
        )
    errors = [one.error for one in outcomes if one.error]
    if errors and len(errors) < len(outcomes):
        return InstalledInPart.exit_code
    return errors[0].exit_code if errors else 0


def _published(done: Published) -> dict[str, object]:
    return {"skill": f"{done.namespace}/{done.name}", **done.as_json()}


def _show_outcome(outcome: PublishResult, *, promote: bool) -> None:
    done = outcome.published
    if done is None:
        error(f"{printable(outcome.path)} is not published: {outcome.error}")
        return
    what = ("Published ", "green") if done.is_new else "Already published: "
    Screen().line(what, f"{printable(f'{done.namespace}/{done.name} {done.version}')}  {done.set_digest}")
    if promote and done.listed not in (None, done.version):
        skill = f"{done.namespace}/{done.name} {done.version} --channel {done.channel}"
        info(
            printable(
                f"{done.channel} stays at {done.listed}, which is later. To go back: "
                f"skillwire registry promote {skill}"
            )
        )
