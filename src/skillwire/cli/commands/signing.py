"""The commands that sign skills and check signatures."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, command, flag, path, text

_FOLDER: Final = Argument(
    "directory", "DIR", "The directory of one skill.", kind="path", completion="directory"
)

COMMANDS: Final = (
    command(
        "sign",
        "signing:sign",
        "Sign a skill as its publisher\n\n"
        "Writes skill.oms.sig (OpenSSF Model Signing) into the folder. The signature covers every "
        "file of the skill, so it can be checked from a server's listing before anything else is fetched. "
        "A skill with lint errors is not signed. Sign again after every change.",
        _FOLDER,
        path("--key FILE", "The private key, in PEM. `skillwire keygen` makes one."),
        path("--cert FILE", "The signer's certificate and its chain, in PEM."),
        text("--password-env VARIABLE", "The environment variable that holds the key's password."),
        flag("--keyless", "Sign with Sigstore instead of a key. Needs skillwire[sigstore]."),
        examples={
            "skillwire keygen acme.pem": "once: acme.pem stays secret, acme.pub goes to your users",
            "skillwire sign ./skills/pdf --key acme.pem": "sign a skill with it",
        },
    ),
    command(
        "keygen",
        "signing:keygen",
        "Create a key for signing skills\n\n"
        "Writes an elliptic curve key (P-256): the private part, readable by you alone, and the public "
        "part beside it. A file that exists is never replaced.",
        Argument("file", "FILE", "Where to write the private key.", kind="path"),
        text(
            "--password-env VARIABLE",
            "Encrypt the private key with the password in this environment variable.",
        ),
        examples={"skillwire keygen acme.pem": "writes acme.pem and acme.pub"},
    ),
    command(
        "verify-signature",
        "signing:verify_signature",
        "Check who signed a skill, and over which files\n\n"
        "Exits with 0 only if a known publisher signed exactly the files that the skill has now. "
        "Publishers are those of skillwire.toml; --key and --root name one here. A signature says who "
        "published a skill, not whether it is safe to use.",
        Argument(
            "name",
            "DIR|SKILL",
            "The directory of a skill, or the name of a skill of your servers.",
            completion="skill",
        ),
        text("--publisher NAME", "Accept this publisher only."),
        path("--key FILE", "Accept this public key, in PEM."),
        path("--root FILE", "Accept certificates that lead to this root certificate, in PEM."),
        text("--on SERVER", "The server to take the skill from.", completion="server"),
        host=True,
        examples={
            "skillwire verify-signature ./skills/pdf --key acme.pub": "a directory, against one public key",
            "skillwire verify-signature docs/pdf --publisher acme": "a skill of the server docs",
        },
    ),
)
