"""Identity: who sends a request. `Caller` is the answer, `AccessRefusal` is the other one.

Every kind of credential passes the same steps in the same order, those of `BearerIdentity`. Access tokens of
an OAuth 2.1 authorization server are one kind (RFC 9728, RFC 9068). The issuer is asked for its keys, never
about a token. While it does not answer, tokens that are signed with known keys stay valid, and no request
waits for it twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from skillwire.documents import read_json
from skillwire.errors import LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SkillUri, split_uri
from skillwire.text import redact_url, shown

_MOST_KEYS: Final = 10_000


class RateLimit:
    """A steady number of requests a minute for each key, with room for a burst; and a number of concurrent
    ones.

    The burst is what a key may use in ten seconds. With 0 there is no limit.
    """

    def __init__(self, per_minute: int, at_once: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60
        self._burst = max(10.0, per_minute / 6)
        self._at_once = at_once
        self._clock = clock
        self._room: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._open: dict[str, int] = {}

    def peek_seconds(self, key: str) -> float:
        """0 if a request may be served now, and otherwise in how many seconds the next may be."""
        found = self._room.get(key)
        if found is None:
            return 0.0
        room = min(self._burst, found[0] + (self._clock() - found[1]) * self._rate)
        return 0.0 if room >= 1 else (1 - room) / self._rate

    def wait_seconds(self, key: str) -> float:
        """Count a request; 0 if it may be served, and otherwise in how many seconds the next may be."""
        if not self._rate:
            return 0.0
        now = self._clock()
        room, last = self._room.get(key, (self._burst, now))
        room = min(self._burst, room + (now - last) * self._rate)
        is_allowed = room >= 1
        self._room[key] = (room - 1 if is_allowed else room, now)
        self._room.move_to_end(key)
        if len(self._room) > _MOST_KEYS:
            self._room.popitem(last=False)
        return 0.0 if is_allowed else (1 - room) / self._rate

    def begin(self, key: str) -> bool:
        """Count a request until `end`; false, and not counted, if there are too many of this key."""
        count = self._open.get(key, 0)
        if self._at_once and count >= self._at_once:
            return False
        self._open[key] = count + 1
        return True

    def end(self, key: str) -> None:
        """A request that `begin` counted is over."""
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]


Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

LOCAL: Final = ""
"""The name of the one caller of a server without named tokens: the user who started it."""
_TOKEN: Final = re.compile(rb"[\x21-\x7e]+")
_MOST_TOKEN: Final = 16_384


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a caller for one server behind a gateway, instead of the configured one.

    `variable` is an environment variable with a bearer token. `header` is a header of the caller's own
    requests that is passed on as the server's bearer token.
    """

    variable: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request. Without `labels`, every server; without `include`, every skill.

    Patterns are over a skill's path with the server's label first, such as `docs/guides/*`.
    """

    name: str = LOCAL
    labels: frozenset[str] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    """The scripts that they may run in a gateway's sandbox: `PATTERN GRANT...`, over paths as above."""
    credentials: Mapping[str, Credential] = field(default_factory=dict[str, Credential])
    is_operator: bool = False
    """Whether they may read the metrics and the health in detail."""
    credential: str = field(default="", repr=False)
    """The digest of what they identified themselves with. With another token, it is another caller."""

    def __hash__(self) -> int:
        return hash((self.name, self.credential))

    @property
    def is_restricted(self) -> bool:
        return self.labels is not None or bool(self.include) or bool(self.exclude)

    def allows(self, root: SkillUri) -> bool:
        """Whether the caller may see a skill with this directory. The URI alone decides, so nothing about
        what is there can be learned from the answer or from the time that it takes."""
        if not self.is_restricted:
            return True
        parts = split_uri(root)
        if self.labels is not None and parts.authority not in self.labels:
            return False
        path = "/".join((parts.authority, *parts.segments))
        if self.include and not any(fnmatchcase(path, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(path, pattern) for pattern in self.exclude)

    def sees_label(self, label: str) -> bool:
        """Whether the caller may see anything of a server."""
        return self.labels is None or label.casefold() in self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRefusal:
    """Why a request is not served."""

    status: int
    """401 for credentials that are missing or not valid, 429 after too many that were not valid, 503 when
    nobody can tell."""
    reason: str
    """For the log."""
    is_given: bool = True
    """Whether there were credentials."""
    retry_seconds: float = 0


C = TypeVar("C", bound=Caller)

NO_TOKEN: Final = AccessRefusal(status=401, reason="there is no token", is_given=False)
MALFORMED: Final = AccessRefusal(status=401, reason="the Authorization header has no bearer token")
NOT_VALID: Final = AccessRefusal(status=401, reason="the token is not valid")


class Identity(Protocol[C]):
    """Finds the caller of a request."""

    @property
    def sign_in_metadata(self) -> Mapping[str, object] | None:
        """How clients sign in (RFC 9728); `None` where nobody can."""
        ...

    @property
    def metadata_url(self) -> str:
        """Where clients find `sign_in_metadata`; empty where there is none."""
        ...

    async def identify(self, headers: Headers, address: str) -> C | AccessRefusal:
        """The caller with these headers, from this address. Raises a `SourceError` if nobody can tell."""
        ...

    async def recheck(self, callers: Sequence[C]) -> Sequence[C | None]:
        """The same callers with the permissions that they have now; `None` for those who were revoked."""
        ...

    async def refresh(self) -> None:
        """Read the callers again if they changed. Called about once a second."""
        ...


class OpenIdentity:
    """No credentials: everybody is the user who started the server."""

    sign_in_metadata = None
    metadata_url = ""

    def __init__(self) -> None:
        self._user = Caller()

    async def identify(self, headers: Headers, address: str) -> Caller | AccessRefusal:
        return self._user

    async def recheck(self, callers: Sequence[Caller]) -> Sequence[Caller | None]:
        return callers

    async def refresh(self) -> None:
        pass


class BearerIdentity(Generic[C]):
    """Callers with bearer tokens. Each request passes these steps:

    1. without an `Authorization` header, `_anonymous` decides,
    2. an empty or malformed one, or two of them, are refused at once,
    3. a credential that was let in before and is still fresh is let in,
    4. an address that sent too many wrong ones is refused, before anything else is asked,
    5. `_find` decides: by what is in memory, in a database, or with the keys of an issuer.

    Step 3 comes before step 4, so whoever guesses tokens behind a proxy stops no one who is known already.
    """

    sign_in_metadata: Mapping[str, object] | None = None
    metadata_url: str = ""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._failures = RateLimit(limits.http_failed_credentials_per_minute, 0)

    async def identify(self, headers: Headers, address: str) -> C | AccessRefusal:
        """The caller, or why there is none."""
        given = [value for name, value in headers if name == b"authorization"]
        if not given:
            return await self._anonymous()
        token = bearer_token(given)
        if token is None:
            return MALFORMED
        caller = self._recent(token)
        if caller is not None:
            return caller
        if seconds := self._failures.peek_seconds(address):
            return AccessRefusal(
                status=429, reason="too many tokens that are not valid", retry_seconds=seconds
            )
        caller = await self._find(token)
        if caller is None:
            self._failures.wait_seconds(address)  # Counts it.
            return NOT_VALID
        return caller

    async def _anonymous(self) -> C | AccessRefusal:
        return NO_TOKEN

    def _recent(self, token: bytes) -> C | None:
        """The caller of a credential that was let in before and need not be checked again."""
        raise NotImplementedError

    async def _find(self, token: bytes) -> C | None:
        """The caller of a credential; `None` if it is not valid."""
        raise NotImplementedError


def bearer_token(given: Sequence[bytes]) -> bytes | None:
    """The bearer token in the values of a request's `Authorization` headers; `None` if there is not exactly
    one header, or if it has no token that could be valid."""
    if len(given) != 1:
        return None
    scheme, _, rest = given[0].partition(b" ")
    token = rest.strip()
    if scheme.lower() != b"bearer" or len(token) > _MOST_TOKEN or not _TOKEN.fullmatch(token):
        return None
    return token


def token_digest(token: bytes) -> str:
    """How a token is stored. A token is random, so a plain digest cannot be reversed."""
    return f"sha256:{hashlib.sha256(token).hexdigest()}"


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
