"""Input from outside: archives, HTTP and addresses, each within limits before memory is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.net.addresses import check_target as check_target
    from skillwire.net.addresses import is_loopback as is_loopback
    from skillwire.net.archive import ArchiveFile as ArchiveFile
    from skillwire.net.archive import archive_file as archive_file
    from skillwire.net.archive import is_archive as is_archive
    from skillwire.net.archive import read_archive as read_archive
    from skillwire.net.archive import split_skills as split_skills
    from skillwire.net.archive import write_tar_gz as write_tar_gz
    from skillwire.net.failures import Credentials as Credentials
    from skillwire.net.failures import connect_failure as connect_failure
    from skillwire.net.failures import status_failure as status_failure
    from skillwire.net.http import CappedBody as CappedBody
    from skillwire.net.http import GuardedTransport as GuardedTransport
    from skillwire.net.http import open_client as open_client
    from skillwire.net.http import ssl_trust as ssl_trust

export(
    __name__,
    {
        "addresses": "check_target is_loopback",
        "archive": "ArchiveFile archive_file is_archive read_archive split_skills write_tar_gz",
        "failures": "Credentials connect_failure status_failure",
        "http": "CappedBody GuardedTransport open_client ssl_trust",
    },
)
