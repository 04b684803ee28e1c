"""Who is asking: tokens of the registry, or access tokens of an OAuth 2.1 authorization server (RFC 9728)."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.to_thread

from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.registry.access import Access, Caller
from skillwire.text import redact_url

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
"""Where clients learn which issuer's tokens the registry accepts (RFC 9728)."""
_TOKEN_SECONDS: Final = 1.0
_MOST_CACHED: Final = 10_000
_KEYS_SECONDS: Final = 300.0
_ASK_AGAIN_SECONDS: Final = 10.0
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
    """The authorization server whose access tokens are accepted.

    What its users may do is granted in the store, to `user:SUBJECT` or `group:GROUP`.
    """

    issuer: str
    audience: str
    """The `aud` that a token must name: this registry's own URL."""
    jwks_url: str = ""
    """Where the keys are; by default what the issuer's metadata says."""
    groups_claim: str = "groups"
    channel: str = "stable"


class Login:
    """Finds the caller behind a request. Results are cached for a second, so a revoked token ends soon."""

    def __init__(self, access: Access, oauth: OAuthSettings | None = None) -> None:
        self._access = access
        self.oauth = oauth
        self._keys = None if oauth is None else _Keys(oauth)
        self._cached: OrderedDict[str, tuple[float, Caller | None]] = OrderedDict()

    async def caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller | None:
        """The caller; `None` if their token is not valid.

        Without a token, the caller may see what `anyone` was granted.
        """
        given = [value for name, value in headers if name == b"authorization"]
        if not given:
            return await self._lookup("", partial(self._access.caller, "anonymous"))
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer":
            return None
        text = token.strip().decode("latin-1")
        if self._keys is not None and text.count(".") == 2:
            return await self._by_oauth(self._keys, text)
        return await self._lookup(text, partial(self._access.caller_of_token, text))

    async def _by_oauth(self, keys: _Keys, token: str) -> Caller | None:
        claims = await keys.claims(token)
        if claims is None:
            return None
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            return None
        given = claims.get(keys.settings.groups_claim)
        groups = (
            tuple(group for group in cast("list[object]", given) if isinstance(group, str))
            if isinstance(given, list)
            else ()
        )
        name = f"user:{subject}"
        ask = partial(self._access.caller, name, groups, channel=keys.settings.channel)
        return await self._lookup(f"{name}\n{groups}", ask)

    async def _lookup(self, key: str, ask: partial[Caller] | partial[Caller | None]) -> Caller | None:
        cached = self._cached.get(key)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        try:
            caller = await anyio.to_thread.run_sync(ask)
        except SourceError:
            # The database is unavailable. Known callers can still read what is in memory.
            if cached is None or cached[1] is None:
                raise
            return cached[1]
        self._cached[key] = (time.monotonic() + _TOKEN_SECONDS, caller)
        self._cached.move_to_end(key)
        while len(self._cached) > _MOST_CACHED:
            self._cached.popitem(last=False)
        return caller


class _Keys:
    """The public keys of an issuer, fetched again when a token names one that is not known yet."""

    def __init__(self, settings: OAuthSettings) -> None:
        self.settings = settings
        self._keys: dict[str, Any] = {}
        self._fetched = self._asked = float("-inf")
        self._fetching = anyio.Lock()

    async def claims(self, token: str) -> Mapping[str, object] | None:
        """The claims of a valid token; `None` for any other."""
        import jwt

        try:
            head = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        key = await self._key(head.get("kid"))
        if key is None:
            return None
        try:
            return jwt.decode(
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

    async def _key(self, kid: object) -> Any:
        name = kid if isinstance(kid, str) else ""
        async with self._fetching:
            at = time.monotonic()
            is_old = at - self._fetched > _KEYS_SECONDS
            # A new key appears when the issuer rotates; unauthenticated requests cannot make us fetch more
            # often than this.
            is_new = name not in self._keys and at - self._asked > _ASK_AGAIN_SECONDS
            if is_old or is_new:
                self._asked = at
                await self._fetch()
        return self._keys.get(name)

    async def _fetch(self) -> None:
        import httpx2 as httpx
        import jwt

        try:
            async with httpx.AsyncClient(timeout=5, follow_redirects=False) as client:
                url = self.settings.jwks_url or await _jwks_url(client, self.settings.issuer)
                found = jwt.PyJWKSet.from_dict(await _json(client, url))
        except (httpx.HTTPError, ValueError, KeyError, jwt.PyJWTError) as error:
            _log.error(
                "the keys of %s cannot be read: %s", redact_url(self.settings.issuer), shown(str(error), 200)
            )
            return
        self._keys = {key.key_id or "": key for key in found.keys}
        self._fetched = time.monotonic()


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
        except ValueError:
            continue
        if found.get("issuer") == issuer and isinstance(found.get("jwks_uri"), str):
            return str(found["jwks_uri"])
    raise ValueError("the issuer publishes no metadata that names its keys")


async def _json(client: Any, url: str) -> dict[str, Any]:
    response = await client.get(url)
    if response.status_code != 200 or len(response.content) > _KEYS_BYTES:
        raise ValueError(f"HTTP status {response.status_code}")
    found = response.json()
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return cast("dict[str, Any]", found)


def resource_metadata(oauth: OAuthSettings) -> dict[str, object]:
    """What a client needs to know to sign in (RFC 9728)."""
    return {
        "resource": oauth.audience,
        "authorization_servers": [oauth.issuer],
        "bearer_methods_supported": ["header"],
    }
