"""Access tokens: one question to the issuer for all who wait, and none who wait without need."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from skillwire.access import AccessTokens, OAuthSettings

pytestmark = pytest.mark.anyio

SETTINGS = OAuthSettings(issuer="https://login.example", audience="https://skills.example/mcp")


class Issuer(AccessTokens):
    """Checks with keys that an issuer in this process gives, or does not give."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(SETTINGS, clock=lambda: self.now)
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.answering = asyncio.Event()
        self.asked = 0

    async def _fetch(self) -> None:
        self.asked += 1
        try:
            await self.answering.wait()
            public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
            self._keys = {"one": jwt.PyJWK({**public, "kid": "one", "alg": "RS256"})}
            self._fetched = self.now
        finally:
            self._fetching = None

    def token(self, kid: str = "one", **changes: Any) -> str:
        claims: dict[str, object] = {
            "iss": SETTINGS.issuer,
            "aud": SETTINGS.audience,
            "sub": "ada",
            "groups": ["a", 7],
            "exp": int(time.time()) + 600,
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, self.private, algorithm="RS256", headers={"kid": kid})


async def test_a_hanging_issuer_delays_nobody_whose_key_is_known() -> None:
    issuer = Issuer()
    waiting = [asyncio.ensure_future(issuer.check(issuer.token())) for _ in range(20)]
    await asyncio.sleep(0)
    issuer.answering.set()
    found = await asyncio.gather(*waiting)
    assert [one.subject for one in found if one] == ["ada"] * 20
    assert found[0] is not None
    assert found[0].groups == ("a",)
    assert issuer.asked == 1
    issuer.answering.clear()
    issuer.now += 1000  # The keys are old, and the issuer hangs.
    for _ in range(20):
        async with asyncio.timeout(30):
            assert await issuer.check(issuer.token()) is not None
        await asyncio.sleep(0)
    assert issuer.asked == 2
    issuer.answering.set()


async def test_made_up_keys_do_not_make_us_ask_the_issuer_again_and_again() -> None:
    issuer = Issuer()
    issuer.answering.set()
    for number in range(20):
        assert await issuer.check(issuer.token(f"made-up-{number}")) is None
    assert issuer.asked == 1
    issuer.now += 11
    assert await issuer.check(issuer.token("new")) is None
    assert issuer.asked == 2
    for text in ("", "a.b.c", "x"):
        assert await issuer.check(text) is None


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", "https://evil.example"),
        ("iss", None),
        ("aud", "https://other.example"),
        ("aud", None),
        ("exp", 1),
        ("exp", None),
        ("sub", ""),
        ("sub", None),
    ],
)
async def test_a_token_with_another_claim_or_without_it_is_not_valid(claim: str, value: Any) -> None:
    issuer = Issuer()
    issuer.answering.set()
    assert await issuer.check(issuer.token()) is not None
    assert await issuer.check(issuer.token(**{claim: value})) is None


def test_clients_find_the_metadata_before_the_path_of_the_resource() -> None:
    assert SETTINGS.metadata_url == "https://skills.example/.well-known/oauth-protected-resource/mcp"
    assert SETTINGS.sign_in_metadata["authorization_servers"] == ["https://login.example"]
