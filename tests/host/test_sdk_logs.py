"""What the SDK logs about servers stays off the terminal."""

from __future__ import annotations

import logging

import pytest

from skillwire.host.sdk import filter_sdk_logs


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize("quiet", [True, False])
def test_a_program_without_logging_shows_nothing_of_a_servers_words(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sdks = logging.getLogger("mcp.client.streamable_http")
    for logger in (logging.getLogger(), sdks):
        monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(sdks, "filters", [])
    if quiet:
        filter_sdk_logs()
    try:
        raise ValueError("\x1b[2J from the server")
    except ValueError:
        sdks.exception("bad answer")
    shown = capsys.readouterr()
    assert ("from the server" in shown.err) is not quiet
    assert shown.out == ""


@pytest.mark.requirement("SEC-11")
def test_a_program_that_logs_warnings_sees_none_of_the_sdks(caplog: pytest.LogCaptureFixture) -> None:
    filter_sdk_logs()
    logging.getLogger("mcp.client.streamable_http").warning("Unexpected content type: text/html")
    assert caplog.records == []


@pytest.mark.requirement("SEC-11")
def test_a_program_that_debugs_gets_one_clean_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "skillwire.sdk")
    filter_sdk_logs()
    filter_sdk_logs()
    logger = logging.getLogger("mcp.client.streamable_http")
    logger.error("got %s", "\x1b[2Ja\nb" + "x" * 1000)
    (record,) = caplog.records
    assert record.getMessage().startswith("got a bxxx")
    assert len(record.getMessage()) <= 300
    assert len([handler for handler in logger.handlers if isinstance(handler, logging.NullHandler)]) == 1
