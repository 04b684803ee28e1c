"""An answer is read completely or not at all, and one that differs from the first is parsed again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from benchmarks.calls import FIRST_ID, Call, WrongAnswer, result_of
from benchmarks.http_load import Connection, Pattern, drive, parse_answer, pattern_of
from benchmarks.processes import ServerFailed

CALL = Call(b"POST / HTTP/1.1\r\n\r\n", b"\n", (b"right",))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nDate: now\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def body(identity: int, said: bytes = b"right") -> bytes:
    return b'{"id":%d,"result":"%s"}' % (identity, said)


def event(text: bytes) -> bytes:
    data = b"event: message\r\ndata: %s\r\n\r\n" % text
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


@contextmanager
def saying(*answers: bytes) -> Iterator[tuple[str, int]]:
    """A server that says one of these to each request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                for each in answers:
                    client.recv(65536)
                    client.sendall(each)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()
        thread.join()


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"content-length: 5\r\n\r\nhell", None),
        (HEAD + b"content-length: 5\r\n", None),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n", None),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", None),
    ],
)
def test_an_answer_is_complete_when_all_of_it_arrived(data: bytes, whole: bytes | None) -> None:
    assert parse_answer(data) == whole


def test_an_answer_without_a_length_is_refused() -> None:
    with pytest.raises(WrongAnswer):
        parse_answer(HEAD + b"\r\nhello")


def known() -> Pattern:
    pattern = pattern_of(answer(body(FIRST_ID)), CALL, FIRST_ID)
    assert pattern is not None
    return pattern


def test_the_same_answer_with_another_id_matches_the_first() -> None:
    assert known().fits(answer(body(FIRST_ID + 7)), FIRST_ID + 7)


@pytest.mark.parametrize(
    "data",
    [
        answer(body(FIRST_ID + 7)),
        answer(body(FIRST_ID, b"wrong")),
        answer(body(FIRST_ID) + b" "),
        answer(body(FIRST_ID))[:-1],
        answer(body(FIRST_ID), status=b"500 Oh"),
        answer(body(FIRST_ID)).replace(b"Length: ", b"Length: 1"),
    ],
)
def test_any_other_answer_does_not_match(data: bytes) -> None:
    assert not known().fits(data, FIRST_ID)


def test_an_answer_in_chunks_makes_no_pattern() -> None:
    assert pattern_of(event(body(FIRST_ID)), CALL, FIRST_ID) is None


@pytest.mark.parametrize("wrap", [answer, event])
def test_answers_are_counted_when_all_are_right_however_they_come(wrap: Callable[[bytes], bytes]) -> None:
    answers = [wrap(body(FIRST_ID + number)) for number in range(5)]
    with saying(*answers) as address:
        load = drive(address, [CALL], connections=1, seconds=60, cpu=lambda: 0, at_most=5)
    assert load.answers == 5


@pytest.mark.parametrize("wrap", [answer, event])
@pytest.mark.parametrize("last", [body(FIRST_ID + 2, b"wrong"), body(FIRST_ID + 3), b""])
def test_a_wrong_answer_is_noticed_after_right_ones(wrap: Callable[[bytes], bytes], last: bytes) -> None:
    answers = [wrap(body(FIRST_ID)), wrap(body(FIRST_ID + 1)), wrap(last)]
    with saying(*answers) as address, pytest.raises(WrongAnswer):
        drive(address, [CALL], connections=1, seconds=60, cpu=lambda: 0, at_most=5)


def test_an_answer_as_an_event_is_read_as_any_other() -> None:
    with saying(event(body(FIRST_ID))) as address:
        connection = Connection(address)
        assert result_of(connection.ask(CALL)) == "right"
        connection.close()


def test_a_server_that_closes_the_connection_has_failed() -> None:
    with saying(answer(body(FIRST_ID))[:-1]) as address:
        connection = Connection(address)
        with pytest.raises(ServerFailed):
            connection.ask(CALL)
        connection.close()
