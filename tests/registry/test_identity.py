"""The callers of a registry: each kind of credential has its own key space, and the database may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skillwire.access import AccessRefusal
from skillwire.errors import SourceError
from skillwire.limits import Limits
from skillwire.registry import Access, RegistryCaller, Role, Store, Subject
from skillwire.registry.app import StoreIdentity
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

ADDRESS = "192.0.2.7"


class SlowAccess(Access):
    """Grants in a database that counts questions, and that can stop answering."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked: list[Sequence[Subject]] = []
        self.answering = threading.Event()
        self.answering.set()

    def callers(self, subjects: Sequence[Subject], **options: Any) -> list[RegistryCaller | None]:
        self.asked.append(subjects)
        if not self.answering.wait(PATIENCE):
            raise SourceError("the test is over")
        return super().callers(subjects, **options)


@pytest.fixture
def access(tmp_path: Path) -> SlowAccess:
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    return SlowAccess(store)


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


async def test_an_empty_token_does_not_count_as_nobody(access: SlowAccess) -> None:
    access.grant("anyone", "open", Role.READ, by="test")
    identity = StoreIdentity(access)
    anyone = await identity.identify([], ADDRESS)
    assert isinstance(anyone, RegistryCaller)
    for number in range(3):
        empty = await identity.identify([(b"authorization", b"Bearer" + b" " * number)], ADDRESS)
        assert isinstance(empty, AccessRefusal)
    again = await identity.identify([], ADDRESS)
    assert isinstance(again, RegistryCaller)
    assert (again.name, again.credential, again.is_operator) == ("anonymous", "", False)


async def test_what_cannot_be_a_token_is_not_looked_up_and_guesses_are_limited_before(
    access: SlowAccess,
) -> None:
    identity = StoreIdentity(access, limits=Limits(http_failed_credentials_per_minute=1))
    for text in ("wrong", "skr_", "skr_short", "anonymous", "user:ada"):
        assert isinstance(await identity.identify(bearer(text), "192.0.2.1"), AccessRefusal)
    assert access.asked == []
    for number in range(50):
        await identity.identify(bearer(f"skr_{number:043d}"), ADDRESS)
    assert len(access.asked) == 10


async def test_roles_decide_who_is_let_in_and_who_is_an_operator(access: SlowAccess) -> None:
    tokens = {name: access.add_token(name, by="test") for name in ("none", "reader", "local", "admin")}
    access.grant("token:reader", "acme", Role.READ, by="test")
    access.grant("token:local", "acme", Role.ADMIN, by="test")
    access.grant("token:admin", "*", Role.ADMIN, by="test")
    identity = StoreIdentity(access)
    for _ in range(2):  # The second time from the cache.
        found = {name: await identity.identify(bearer(token), ADDRESS) for name, token in tokens.items()}
        assert isinstance(found["none"], AccessRefusal)
        operators = {n: one.is_operator for n, one in found.items() if isinstance(one, RegistryCaller)}
        assert operators == {"reader": False, "local": False, "admin": True}
    assert isinstance(await identity.identify([], ADDRESS), AccessRefusal)


@pytest.mark.slow
async def test_all_open_streams_are_checked_with_one_question_and_expired_ones_end(
    access: SlowAccess,
) -> None:
    callers: list[RegistryCaller] = []
    identity = StoreIdentity(access)
    for number in range(600):
        token = access.add_token(f"t{number}", by="test")
        access.grant(f"token:t{number}", "acme", Role.READ, by="test")
        found = await identity.identify(bearer(token), ADDRESS)
        assert isinstance(found, RegistryCaller)
        callers.append(found)
    access.revoke_token("t7", by="test")
    access.grant("token:t8", "acme", None, by="test")
    asked = len(access.asked)
    user = Subject("user", "ada", ("readers",))
    access.grant("group:readers", "acme", Role.READ, by="test")
    [ada] = Access.callers(access, [user])
    assert ada is not None
    late = RegistryCaller(name=ada.name, roles=ada.roles, subject=user, expires=time.time() - 1)
    current = await identity.recheck([*callers, ada, late])
    assert len(access.asked) == asked + 1
    assert current[7] is None
    assert current[8] is not None
    assert current[8].roles == {}
    assert current[9] == callers[9]
    assert current[-2] == ada
    assert current[-1] is None


async def test_a_known_caller_is_let_in_while_the_database_hangs_and_a_stranger_is_not(
    access: SlowAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillwire.registry.app._FRESH_SECONDS", 0.0)
    token = access.add_token("ada", by="test")
    access.grant("token:ada", "acme", Role.READ, by="test")
    identity = StoreIdentity(access)
    assert isinstance(await identity.identify(bearer(token), ADDRESS), RegistryCaller)
    # From here on nobody answers: how long is waited for that does not matter.
    monkeypatch.setattr("skillwire.registry.app._STALE_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("skillwire.registry.app._WAIT_SECONDS", 0.2)
    access.answering.clear()
    try:
        asked = len(access.asked)
        for _ in range(20):
            assert isinstance(await identity.identify(bearer(token), ADDRESS), RegistryCaller)
        assert len(access.asked) == asked + 1, "one question at a time for each caller"
        with pytest.raises(SourceError, match="did not answer"):
            await identity.identify(bearer(f"skr_{'x' * 43}"), ADDRESS)
        monkeypatch.setattr(identity, "_stale_seconds", 0.0)
        with pytest.raises(SourceError, match="did not answer"):
            await identity.identify(bearer(token), ADDRESS)
    finally:
        access.answering.set()
