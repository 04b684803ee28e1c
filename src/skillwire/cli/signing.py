"""`skillwire sign`, `keygen` and `verify-signature`: who published a skill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.parser import UsageError

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.trust.publishers import Publisher
    from skillwire.trust.signatures import SignatureVerdict

_NOT_SIGNED = 6


def sign(
    *,
    directory: Path,
    key: Path | None,
    cert: Path | None,
    password_env: str | None,
    keyless: bool,
    as_json: bool,
) -> None:
    """Sign a skill, and write its signature into its directory."""
    from skillwire.cli.output import counted, printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.sources.directory import signing

    if keyless == (key is not None):
        raise UsageError("give --key FILE, or --keyless")
    if cert is not None and key is None:
        raise UsageError("--cert needs --key, the private key of the certificate")
    folder = signing.read_folder(directory)
    if key is None:
        written = signing.sign_keyless(folder)
    else:
        private = signing.load_private_key(key, _password(password_env))
        written = signing.sign_folder(folder, private, signing.load_chain(cert) if cert else ())
    files = len([name for name in folder.files if name != written.name])
    if as_json:
        show_json({"skill": folder.name, "signature": str(written), "files": files})
        return
    Screen().line(
        ("Signed ", "green"), f"{printable(folder.name)}, {counted(files, 'file')}: {printable(str(written))}"
    )


def keygen(*, file: Path, password_env: str | None, as_json: bool) -> None:
    """Create a key pair."""
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.sources.directory.signing import new_key_pair

    public = new_key_pair(file, _password(password_env))
    if as_json:
        show_json({"private_key": str(file), "public_key": str(public)})
        return
    screen = Screen()
    screen.line(("Wrote ", "green"), f"{printable(str(file))}. Keep it secret.")
    screen.line(
        ("Wrote ", "green"), f"{printable(str(public))}. Give it to whoever should recognize your skills:"
    )
    screen.line(f'  [publishers.NAME]\n  key = "{printable(public.name)}"')


def verify_signature(
    *,
    name: str,
    publisher: str | None,
    key: Path | None,
    root: Path | None,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Print who signed a skill; returns 0 only if the signature covers exactly its files."""
    from datetime import UTC, datetime

    from skillwire.sources.directory.signing import check_folder, read_folder

    given = _given_publisher(publisher, key, root)
    if Path(name).is_dir() or Path(name).name == "SKILL.md":
        publishers = [given] if given else _configured(options, publisher)
        return _report(
            name, check_folder(read_folder(Path(name)), publishers, now=datetime.now(UTC)), as_json
        )
    found: list[tuple[str, SignatureVerdict]] = []

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        publishers = [given] if given else _configured(options, publisher)
        found.append((skill.handle, await host.admin.signature(skill, publishers)))

    with_host(options, action)
    return _report(*found[0], as_json)


def _report(name: str, verdict: SignatureVerdict, as_json: bool) -> int:
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json

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
    from skillwire.sources.directory.signing import read_pem
    from skillwire.trust.publishers import Publisher

    if key is None and root is None:
        return None
    return Publisher.from_pem(
        name or (key or root or Path()).stem,
        key=read_pem(key) if key else None,
        root=read_pem(root) if root else None,
    )


def _configured(options: HostOptions, name: str | None) -> list[Publisher]:
    """The publishers of the configuration, or the one of this name."""
    from skillwire.errors import SourceError

    publishers = options.publishers()
    if name is None:
        return publishers
    chosen = [one for one in publishers if one.name == name]
    if not chosen:
        raise SourceError(f"no publisher is called {name}: add it to skillwire.toml, or give --key or --root")
    return chosen


def _password(variable: str | None) -> bytes | None:
    import os

    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"{variable} is not set: put the password into it")
    return value.encode("utf-8")
