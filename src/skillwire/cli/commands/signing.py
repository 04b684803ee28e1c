"""The commands that sign skills and check signatures."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, flag, path, text

_FOLDER: Final = Argument(
    field="directory",
    metavar="DIR",
    help="The directory of one skill.",
    kind="path",
    completion="directory",
)

COMMANDS: Final = (
    Command(
        name="sign",
        summary="Sign a skill as its publisher",
        about="Writes skill.oms.sig (OpenSSF Model Signing) into the folder. The signature covers every file "
        "of the skill, so it can be checked from a server's listing before anything else is fetched. A skill "
        "that `lint` refuses is not signed. Sign again after every change.",
        run="signing:sign",
        arguments=(_FOLDER,),
        options=(
            path("--key", help="The private key, in PEM. `skillwire keygen` makes one."),
            path("--cert", help="The signer's certificate and its chain, in PEM."),
            text(
                "--password-env",
                metavar="VARIABLE",
                help="The environment variable that holds the key's password.",
            ),
            flag("--keyless", help="Sign with Sigstore instead of a key. Needs skillwire[sigstore]."),
            JSON,
        ),
        examples=(
            ("skillwire keygen acme.pem", "once: acme.pem stays secret, acme.pub goes to your users"),
            ("skillwire sign ./skills/pdf --key acme.pem", "sign a skill with it"),
        ),
    ),
    Command(
        name="keygen",
        summary="Make a key to sign skills with",
        about="Writes an elliptic curve key (P-256): the private part, readable by you alone, and the public "
        "part beside it. A file that exists is never replaced.",
        run="signing:keygen",
        arguments=(
            Argument(field="file", metavar="FILE", help="Where to write the private key.", kind="path"),
        ),
        options=(
            text(
                "--password-env",
                metavar="VARIABLE",
                help="Encrypt the private key with the password in this environment variable.",
            ),
            JSON,
        ),
        examples=(("skillwire keygen acme.pem", "writes acme.pem and acme.pub"),),
    ),
    Command(
        name="verify-signature",
        summary="Check who signed a skill, and over which files",
        about="Exits with 0 only if a known publisher signed exactly the files that the skill has now. "
        "Publishers are those of skillwire.toml; --key and --root name one here. A signature says who "
        "published a skill, not whether it is safe to use.",
        run="signing:verify_signature",
        host=True,
        arguments=(
            Argument(
                field="name",
                metavar="DIR|SKILL",
                help="The directory of a skill, or the name of a skill of your servers.",
                completion="skill",
            ),
        ),
        options=(
            text("--publisher", metavar="NAME", help="Accept this publisher only."),
            path("--key", help="Accept this public key, in PEM."),
            path("--root", help="Accept certificates that lead to this root certificate, in PEM."),
            text("--on", metavar="SERVER", help="The server to take the skill from.", completion="server"),
            JSON,
        ),
        examples=(
            ("skillwire verify-signature ./skills/pdf --key acme.pub", "a directory, against one public key"),
            ("skillwire verify-signature docs/pdf --publisher acme", "a skill of the server docs"),
        ),
    ),
)
