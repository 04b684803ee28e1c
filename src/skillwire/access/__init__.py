"""Who sends a request: callers, their tokens, and the access tokens of an identity provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.access.callers import CallerFile as CallerFile
    from skillwire.access.callers import Callers as Callers
    from skillwire.access.callers import TokenFile as TokenFile
    from skillwire.access.callers import checked_token as checked_token
    from skillwire.access.callers import credentials_of as credentials_of
    from skillwire.access.callers import new_token as new_token
    from skillwire.access.identity import METADATA_PATH as METADATA_PATH
    from skillwire.access.identity import AccessRefusal as AccessRefusal
    from skillwire.access.identity import AccessTokens as AccessTokens
    from skillwire.access.identity import BearerIdentity as BearerIdentity
    from skillwire.access.identity import C as C
    from skillwire.access.identity import Caller as Caller
    from skillwire.access.identity import Credential as Credential
    from skillwire.access.identity import Headers as Headers
    from skillwire.access.identity import Identity as Identity
    from skillwire.access.identity import OAuthSettings as OAuthSettings
    from skillwire.access.identity import OpenIdentity as OpenIdentity
    from skillwire.access.identity import RateLimit as RateLimit
    from skillwire.access.identity import SignedIn as SignedIn

export(
    __name__,
    {
        "callers": "CallerFile Callers TokenFile checked_token credentials_of new_token",
        "identity": (
            "C METADATA_PATH AccessRefusal AccessTokens BearerIdentity Caller Credential Headers Identity "
            "OAuthSettings OpenIdentity RateLimit SignedIn"
        ),
    },
)
