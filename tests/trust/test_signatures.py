"""Signatures: who signed a skill, over which files, and what does not count as signed."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from publishers import NOW, Identity, authority, chain_of, new_key, signer
from skillwire.errors import FormatError
from skillwire.skill import (
    DYNAMIC,
    Digest,
    SkillEntry,
    SkillResource,
    SkillUri,
    child_uri,
    digest_of,
    make_uri,
    skill_root,
)
from skillwire.trust import (
    MAX_BUNDLE_BYTES,
    SIGNATURE_FILE,
    Publisher,
    SignatureState,
    SignatureVerdict,
    check_signature,
    sign_files,
    skill_files,
)
from skillwire.trust.publishers import bundle_of, key_hint, statement_of

FILES: Mapping[str, Digest] = {
    "SKILL.md": digest_of(b"skill"),
    "scripts/run.py": digest_of(b"script"),
    "references/größe.md": digest_of(b"umlaut"),
}
KEY = new_key()
ACME = Publisher("acme", keys=[KEY.public_key()])
ROOT = authority()
CORP = Publisher("corp", roots=[ROOT.certificate])


def check(
    bundle: bytes | None, *publishers: Publisher, files: Mapping[str, Digest] = FILES
) -> SignatureVerdict:
    return check_signature(files, bundle, publishers or (ACME, CORP), now=NOW)


def by_key() -> bytes:
    return sign_files(FILES, name="demo", key=KEY)


def by_certificate(leaf: Identity, *more: Identity) -> bytes:
    return sign_files(FILES, name="demo", key=leaf.key, chain=chain_of(leaf, *more))


def signed_payload(
    change: Callable[[dict[str, Any]], object],
    key: ec.EllipticCurvePrivateKey = KEY,
    encoding: str = "utf-8",
) -> bytes:
    """A bundle whose statement was changed before it was signed: only the content is wrong."""
    statement = json.loads(statement_of(FILES, name="demo"))
    change(statement)
    payload = json.dumps(statement).encode(encoding)
    kind = b"application/vnd.in-toto+json"
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    from cryptography.hazmat.primitives.hashes import SHA256

    return bundle_of(payload, key.sign(pae, ec.ECDSA(SHA256())), hint=key_hint(key.public_key()))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_statement_in_another_encoding_proves_nothing(encoding: str) -> None:
    """Readers that guess the encoding could read other files than we do."""
    assert check(signed_payload(lambda statement: statement)).is_signed
    verdict = check(signed_payload(lambda statement: statement, encoding=encoding))
    assert verdict.state is SignatureState.INVALID


def rehash(statement: dict[str, Any]) -> None:
    digests = b"".join(bytes.fromhex(row["digest"]) for row in statement["predicate"]["resources"])
    statement["subject"][0]["digest"]["sha256"] = hashlib.sha256(digests).hexdigest()


def test_a_skill_without_a_signature_file_is_not_signed() -> None:
    assert str(check(None)) == "not signed"


@pytest.mark.parametrize(
    "curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name
)
def test_a_signature_by_the_key_of_a_publisher_counts_on_every_allowed_curve(curve: ec.EllipticCurve) -> None:
    key = new_key(curve)
    bundle = sign_files(FILES, name="demo", key=key)
    verdict = check(bundle, Publisher("acme", keys=[key.public_key()]))
    assert str(verdict) == "signed by acme over exactly these files"
    assert verdict.signer == f"key:{key_hint(key.public_key())}"


def test_a_certificate_that_leads_to_the_root_of_a_publisher_counts() -> None:
    middle = authority("Middle", ROOT)
    for chain in (
        [signer(ROOT)],
        [signer(ROOT), ROOT],
        [signer(middle), middle],
        [signer(middle), middle, ROOT],
    ):
        verdict = check(by_certificate(chain[0], *chain[1:]))
        assert (verdict.state, verdict.publisher) == (SignatureState.SIGNED, "corp")
        assert verdict.signer.startswith("cert:")


def test_equal_input_gives_equal_bytes() -> None:
    assert by_key() == by_key()
    assert sign_files(dict(reversed(list(FILES.items()))), name="demo", key=KEY) == by_key()


def test_the_signature_file_itself_is_not_among_what_it_signs() -> None:
    files = {**FILES, SIGNATURE_FILE: digest_of(b"whatever")}
    assert check(by_key(), files=files).is_signed
    assert sign_files(files, name="demo", key=KEY) == by_key()


@pytest.mark.parametrize(
    ("files", "differing"),
    [
        ({**FILES, "SKILL.md": digest_of(b"other")}, ("SKILL.md",)),
        ({**FILES, "extra.sh": digest_of(b"x")}, ("extra.sh",)),
        ({"SKILL.md": FILES["SKILL.md"]}, ("references/größe.md", "scripts/run.py")),
        ({**FILES, ".github/run.sh": digest_of(b"x")}, (".github/run.sh",)),
    ],
    ids=["changed", "added", "removed", "below a git directory"],
)
def test_files_that_are_not_as_they_were_signed_are_named(
    files: Mapping[str, Digest], differing: tuple[str, ...]
) -> None:
    verdict = check(by_key(), files=files)
    assert (verdict.state, verdict.publisher, verdict.differing) == (
        SignatureState.DIFFERS,
        "acme",
        differing,
    )
    count = "1 file differs" if len(differing) == 1 else f"{len(differing)} files differ"
    assert str(verdict) == f"signed by acme, but {count}"


@pytest.mark.parametrize("path", [".gitignore", ".gitattributes", "scripts/.gitignore", ".github/x"])
def test_a_file_that_signers_ignore_is_not_signed_when_a_skill_has_it(path: str) -> None:
    verdict = check(by_key(), files={**FILES, path: digest_of(b"*.pyc")})
    assert (verdict.state, verdict.differing) == (SignatureState.DIFFERS, (path,))


def test_a_signature_may_list_files_of_version_control_that_no_skill_has() -> None:
    files = {**FILES, ".gitignore": digest_of(b"*.pyc")}
    bundle = sign_files(files, name="demo", key=KEY)
    assert check(bundle, files=files).is_signed
    assert check(bundle, files=FILES).is_signed
    changed = check(bundle, files={**files, ".gitignore": digest_of(b"*")})
    assert (changed.state, changed.differing) == (SignatureState.DIFFERS, (".gitignore",))


def test_an_ignored_path_that_hides_a_script_does_not_count_as_signed() -> None:
    def hide(statement: dict[str, Any]) -> None:
        statement["predicate"]["serialization"]["ignore_paths"].append("scripts")
        rows = statement["predicate"]["resources"]
        statement["predicate"]["resources"] = [row for row in rows if not row["name"].startswith("scripts")]
        rehash(statement)

    verdict = check(signed_payload(hide))
    assert (verdict.state, verdict.differing) == (SignatureState.DIFFERS, ("scripts/run.py",))


def test_a_key_of_nobody_who_is_configured_is_an_unknown_publisher() -> None:
    stranger = sign_files(FILES, name="demo", key=new_key())
    assert str(check(stranger)) == "signature of an unknown publisher"
    assert str(check(by_key(), CORP)) == "signature of an unknown publisher"
    other_root = authority()  # Of the same name, with another key.
    assert check(by_certificate(signer(other_root), other_root)).state is SignatureState.UNKNOWN


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        ({"ends": NOW - timedelta(days=1)}, "its certificate expired on 2026-11-15"),
        ({"starts": NOW + timedelta(days=1)}, "its certificate is not valid before 2026-11-17"),
        ({"usage": "encrypt"}, "its certificate is not for signing"),
        ({"usage": "tls"}, "its certificate is not for signing"),
        ({"usage": "none"}, "its certificate is not for signing"),
        ({"usage": "sign and tls"}, "its certificate is not for signing"),
    ],
    ids=["expired", "not yet valid", "for encryption", "for TLS", "for nothing", "for signing in TLS"],
)
def test_a_certificate_that_may_not_sign_now_proves_nothing(leaf: dict[str, Any], reason: str) -> None:
    verdict = check(by_certificate(signer(ROOT, **leaf)))
    assert (verdict.state, verdict.reason) == (SignatureState.INVALID, reason)


def test_a_chain_through_a_certificate_that_is_no_authority_proves_nothing() -> None:
    pretender = signer(ROOT, name="Pretender")
    assert not check(by_certificate(signer(pretender, name="Below"), pretender)).is_signed
    weak = authority("Weak", ROOT, ca=False)
    assert not check(by_certificate(signer(weak), weak)).is_signed


def test_a_certificate_in_the_bundle_that_is_no_part_of_the_chain_is_refused() -> None:
    verdict = check(by_certificate(signer(ROOT), authority("Bystander")))
    assert verdict.reason == "its chain has a certificate that does not belong to it"


def test_a_certificate_for_another_key_is_refused_when_signing() -> None:
    with pytest.raises(FormatError, match="not for this key"):
        sign_files(FILES, name="demo", key=new_key(), chain=chain_of(signer(ROOT)))


@pytest.mark.parametrize(
    "public",
    [
        rsa.generate_private_key(65537, 2048).public_key(),
        ed25519.Ed25519PrivateKey.generate().public_key(),
        ec.generate_private_key(ec.SECP256K1()).public_key(),
    ],
    ids=["RSA", "Ed25519", "secp256k1"],
)
def test_a_key_that_is_not_on_the_allow_list_is_refused(public: Any) -> None:
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(FormatError, match="P-256, P-384 or P-521"):
        Publisher.from_pem("acme", key=pem)


@pytest.mark.parametrize("what", ["key", "root", "timestamp_root"])
def test_a_publisher_of_what_is_no_pem_is_refused(what: str) -> None:
    with pytest.raises(FormatError, match="in PEM"):
        Publisher.from_pem("acme", **{what: b"nonsense"})  # type: ignore[arg-type]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(value: Any) -> list[Any]:
    """What somebody could put in place of a value."""
    if isinstance(value, str):
        flipped = ("B" if value[:1] == "A" else "A") + value[1:]
        return [flipped, value + "A", value[:-1] + "x" if value else "x", None, 1, [value]]
    if isinstance(value, dict):
        return [{**value, "extra": 1}, [], None]
    return [[*value, *(copy.deepcopy(value) or ["x"])], {}, "x"]


def mutations(bundle: bytes) -> Iterator[tuple[str, bytes]]:
    whole = json.loads(bundle)
    for path in places(whole):
        for replacement in ("(removed)", *changed(_at(whole, path))):
            other = copy.deepcopy(whole)
            parent = _at(other, path[:-1])
            if replacement == "(removed)":
                del parent[path[-1]]
            else:
                parent[path[-1]] = replacement
            if other != whole:
                yield f"{'.'.join(map(str, path))} = {str(replacement)[:40]}", json.dumps(other).encode()


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


# Leaving these out changes nothing that is claimed: both are optional, and neither is signed.
HARMLESS = {
    "verificationMaterial.tlogEntries = (removed)",
    "dsseEnvelope.signatures.0.keyid = (removed)",
    "verificationMaterial.publicKey.hint = (removed)",
}


@pytest.mark.parametrize("bundle", [by_key(), by_certificate(signer(ROOT), ROOT)], ids=["key", "certificate"])
def test_every_change_of_a_single_field_of_a_bundle_is_refused(bundle: bytes) -> None:
    made = dict(mutations(bundle))
    assert len(made) > 60
    # A root in the bundle is a convenience: the chain is the same without it.
    without_root = "verificationMaterial.x509CertificateChain.certificates.1 = (removed)"
    accepted = {name for name, data in made.items() if check(data).is_signed}
    assert accepted <= HARMLESS | {without_root}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda s: s.update(predicateType="https://model_signing/Digests/v0.1"),
            "does not sign a set of files",
        ),
        (lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "does not sign a set of files"),
        (lambda s: s["subject"].append(s["subject"][0]), "exactly one subject"),
        (lambda s: s["subject"][0]["digest"].update(sha256="0" * 64), "digest of its subject"),
        (
            lambda s: s["predicate"]["serialization"].update(method="shards"),
            "it signs shards, not whole files",
        ),
        (lambda s: s["predicate"]["serialization"].update(hash_type="blake2b"), "SHA-256"),
        (lambda s: s["predicate"]["resources"].append(s["predicate"]["resources"][0]), "twice"),
        (lambda s: s["predicate"]["resources"][0].update(name="/etc/passwd"), "not a plain relative path"),
        (lambda s: s["predicate"]["resources"][0].update(name="a/../../b"), "not a plain relative path"),
        (lambda s: s["predicate"]["resources"][0].update(name="a\\b"), "not a plain relative path"),
        (lambda s: s["predicate"]["resources"][0].update(name="a//b"), "not a plain relative path"),
        (lambda s: s["predicate"]["resources"][0].update(name="a\nb"), "not a plain relative path"),
        (lambda s: s["predicate"]["resources"][0].update(algorithm="md5"), "algorithm sha256"),
        (lambda s: s["predicate"]["resources"][0].update(digest="AB" * 32), "lowercase hexadecimal"),
        (lambda s: s["predicate"]["resources"][0].update(digest="ab"), "lowercase hexadecimal"),
        (lambda s: s["predicate"].update(resources={}), "does not list files"),
        (lambda s: s.pop("predicate"), "has no predicate"),
        (lambda s: s.update(more=1), "unknown field more"),
        (
            lambda s: s["predicate"].update(resources=s["predicate"]["resources"] * 1500),
            "more than 4,096 files",
        ),
    ],
)
def test_a_rightly_signed_statement_that_says_something_odd_proves_nothing(
    change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    verdict = check(signed_payload(change))
    assert verdict.state is SignatureState.INVALID
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not UTF-8 text"),
        (b"[]", "not an object"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1, "a": 2}', "names a field twice"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * (MAX_BUNDLE_BYTES + 1), "at most 1,048,576 are read"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "too many digits"),
    ],
)
def test_a_file_that_is_no_bundle_proves_nothing(data: bytes, reason: str) -> None:
    verdict = check(data)
    assert verdict.state is SignatureState.INVALID
    assert reason in verdict.reason


def test_a_keyless_signature_counts_for_nobody_who_is_known_by_a_key() -> None:
    bundle = json.loads(by_key())
    bundle["verificationMaterial"] = {
        "certificate": {"rawBytes": base64.b64encode(b"x").decode()},
        "tlogEntries": [{}],
    }
    data = json.dumps(bundle).encode()
    assert check(data).state is SignatureState.UNKNOWN
    identity = Publisher("maker", identity="maker@example.org", issuer="https://issuer.example")
    assert check(data, identity).state is SignatureState.INVALID


def test_the_files_of_an_entry_are_known_by_their_paths_below_the_skill() -> None:
    uri = make_uri(["team", "demo", "SKILL.md"])
    files = (SkillResource(uri, FILES["SKILL.md"], 5), _resource(uri, "scripts", "run.py"))
    assert skill_files(SkillEntry(uri, {"name": "demo"}, files)) == {
        "SKILL.md": FILES["SKILL.md"],
        "scripts/run.py": FILES["scripts/run.py"],
    }
    assert skill_files(SkillEntry(uri, {"name": "demo"}, DYNAMIC)) is None


def _resource(uri: SkillUri, *path: str) -> SkillResource:
    file = skill_root(uri)
    for segment in path:
        file = child_uri(file, segment)
    return SkillResource(file, FILES["/".join(path)], 6)


def test_base64_has_one_spelling() -> None:
    """The bits after the last byte are not part of the data: they could be anything."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for name in ("a", "ab", "abc"):
        bundle = json.loads(sign_files(FILES, name=name, key=KEY))
        payload = bundle["dsseEnvelope"]["payload"]
        if payload.endswith("="):
            last = payload.rstrip("=")[-1]
            other = alphabet[alphabet.index(last) + 1]
            respelled = payload.rstrip("=")[:-1] + other + "=" * payload.count("=")
            assert base64.b64decode(respelled) == base64.b64decode(payload)
            bundle["dsseEnvelope"]["payload"] = respelled
            assert "one spelling" in check(json.dumps(bundle).encode()).reason
            return
    raise AssertionError("no payload has padding")


def test_untrusted_text_in_a_reason_is_clean() -> None:
    verdict = check(signed_payload(lambda s: s.update({"x\x1b[31m\n": 1})))
    assert verdict.reason.isprintable()
