"""How long 10,000 checks of signatures take, on one core: `python -m benchmarks.signatures`.

Half of the skills are signed with a key, half with a certificate and one authority between it and the root.
Every bundle is different: nothing is cached from one check to the next. Ends with 1 beyond 30 seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from skillwire.skill import Digest, digest_of
from skillwire.trust import Publisher, check_signature, sign_files

NOW = datetime.now(UTC)
FILES = 8
MOST_SECONDS = 30.0


def issue(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = {
        "content_commitment": False,
        "key_encipherment": False,
        "data_encipherment": False,
        "key_agreement": False,
        "crl_sign": False,
        "encipher_only": False,
        "decipher_only": False,
    }
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, **usage),
            critical=True,
        )
        .sign(by, SHA256())
    )


def samples(count: int) -> list[tuple[dict[str, Digest], bytes]]:
    """Skills with their files and their signatures."""
    root, middle, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    top = issue("Root", root, "Root", root, ca=True)
    chain = [
        issue("Signer", leaf, "Middle", middle, ca=False),
        issue("Middle", middle, "Root", root, ca=True),
    ]
    made: list[tuple[dict[str, Digest], bytes]] = []
    for number in range(count):
        files = {f"references/{at}.md": digest_of(b"%d of %d" % (at, number)) for at in range(FILES - 1)}
        files["SKILL.md"] = digest_of(b"skill %d" % number)
        bundle = sign_files(files, name=f"skill-{number}", key=leaf, chain=chain if number % 2 else ())
        made.append((files, bundle))
    PUBLISHERS[:] = [Publisher("acme", keys=[leaf.public_key()]), Publisher("corp", roots=[top])]
    return made


PUBLISHERS: list[Publisher] = []


def main() -> None:
    parser = argparse.ArgumentParser(description="Check signatures, and say how long that takes.")
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    skills = samples(count)
    started, clock = time.process_time(), time.perf_counter()
    for files, bundle in skills:
        verdict = check_signature(files, bundle, PUBLISHERS, now=NOW)
        if not verdict.is_signed:
            sys.exit(f"not accepted: {verdict}")
    seconds, wall = time.process_time() - started, time.perf_counter() - clock
    print(f"{count:,} signatures checked: {seconds:.1f} s of CPU, {wall:.1f} s by the clock")
    if seconds * 10_000 / count > MOST_SECONDS:
        sys.exit(1)


if __name__ == "__main__":
    main()
