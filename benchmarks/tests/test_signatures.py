"""The benchmark of signatures checks what it says: every bundle is different, and each is accepted."""

from __future__ import annotations

from benchmarks import signatures

from skillwire.trust import check_signature


def test_half_are_signed_by_key_and_half_by_certificate_and_all_are_accepted() -> None:
    made = signatures.samples(6)
    verdicts = [
        check_signature(files, bundle, signatures.PUBLISHERS, now=signatures.NOW) for files, bundle in made
    ]
    assert [verdict.publisher for verdict in verdicts] == ["acme", "corp"] * 3
    assert all(verdict.is_signed for verdict in verdicts)
    assert len({bundle for _, bundle in made}) == 6
