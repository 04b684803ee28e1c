"""Access tokens of an OAuth 2.1 authorization server: a resource server's part (RFC 9728, RFC 9068).

The issuer is asked for its keys, never about a token. While it does not answer, tokens that are signed with
known keys stay valid, and no request waits for it twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

from skillwire.documents import read_json
from skillwire.errors import LimitExceeded
from skillwire.text import redact_url, shown

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
"""Where clients learn which issuer's tokens are accepted (RFC 9728)."""
_KEYS_SECONDS: Final = 300.0
_ASK_AGAIN_SECONDS: Final = 10.0
_FETCH_SECONDS: Final = 5.0
_KEYS_BYTES: Final = 1 << 20
_LEEWAY_SECONDS: Final = 30
# Only public-key signatures: a shared secret would let every resource server make tokens.
_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """The authorization server whose access tokens are accepted."""

    issuer: str
    audience: str
    """The `aud` that a token must name: this server's own URL."""
    jwks_url: str = ""
    """Where the keys are; by default what the issuer's metadata says."""
    groups_claim: str = "groups"
    channel: str = "stable"
    """The channel of a registry that signed-in users read."""

    @property
    def sign_in_metadata(self) -> Mapping[str, object]:
        """The metadata that a client needs to sign in (RFC 9728)."""
        return {
            "resource": self.audience,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }

    @property
    def metadata_url(self) -> str:
        """Where clients find it: the well-known path comes before the path of the resource."""
        parts = urlsplit(self.audience)
        return f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who a valid access token stands for."""

    subject: str
    groups: tuple[str, ...]
    expires: float
    """As `time.time` counts, with the leeway for clocks that differ."""


class AccessTokens:
    """Checks access tokens with the public keys of their issuer."""

    def __init__(self, settings: OAuthSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched = self._asked = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def check(self, token: str) -> SignedIn | None:
        """The user of a valid token; `None` for any other."""
        import jwt

        try:
            head = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        key = await self._key(head.get("kid"))
        if key is None:
            return None
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[*_ALGORITHMS],
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            _log.info("an access token was refused: %s", shown(str(error), 200))
            return None
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            return None
        given = claims.get(self.settings.groups_claim)
        groups = cast("list[object]", given) if isinstance(given, list) else []
        names = tuple(group for group in groups if isinstance(group, str))
        return SignedIn(subject, names, float(claims["exp"]) + _LEEWAY_SECONDS)

    async def _key(self, kid: object) -> Any:
        name = kid if isinstance(kid, str) else ""
        now = self._clock()
        is_known = name in self._keys
        # A new key appears when the issuer rotates. Requests cannot make us ask more often than this.
        may_ask = now - self._asked > _ASK_AGAIN_SECONDS
        if self._fetching is None and may_ask and (not is_known or now - self._fetched > _KEYS_SECONDS):
            self._asked = now
            self._fetching = asyncio.create_task(self._fetch())
        if self._fetching is not None and not is_known:
            # One fetch for all who wait for a key. Those with a known key do not wait for the issuer.
            await asyncio.wait([self._fetching])
        return self._keys.get(name)

    async def _fetch(self) -> None:
        import httpx2 as httpx
        import jwt

        try:
            async with (
                asyncio.timeout(_FETCH_SECONDS),
                httpx.AsyncClient(timeout=_FETCH_SECONDS, follow_redirects=False) as client,
            ):
                url = self.settings.jwks_url or await _jwks_url(client, self.settings.issuer)
                found = jwt.PyJWKSet.from_dict(await _json(client, url))
        except (httpx.HTTPError, TimeoutError, LimitExceeded, ValueError, KeyError, jwt.PyJWTError) as error:
            reason = shown(str(error), 200) or "it did not answer in time"
            _log.error("the keys of %s cannot be read: %s", redact_url(self.settings.issuer), reason)
        else:
            self._keys = {key.key_id or "": key for key in found.keys}
            self._fetched = self._clock()
        finally:
            self._fetching = None


async def _jwks_url(client: Any, issuer: str) -> str:
    """Where an issuer publishes its keys (RFC 8414, OpenID Connect Discovery)."""
    base = issuer.rstrip("/")
    scheme, _, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    places = [
        f"{scheme}://{host}/.well-known/oauth-authorization-server{slash}{path}",
        f"{base}/.well-known/openid-configuration",
    ]
    for place in places:
        try:
            found = await _json(client, place)
        except (LimitExceeded, ValueError):
            continue
        if found.get("issuer") == issuer and isinstance(found.get("jwks_uri"), str):
            return str(found["jwks_uri"])
    raise ValueError("the issuer publishes no metadata that names its keys")


async def _json(client: Any, url: str) -> dict[str, Any]:
    body = bytearray()
    async with client.stream("GET", url) as response:
        if response.status_code != 200:
            raise ValueError(f"HTTP status {response.status_code}")
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _KEYS_BYTES:
                raise ValueError(f"more than {_KEYS_BYTES:,} bytes")
    found = read_json(body, what="the answer")
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return cast("dict[str, Any]", found)
