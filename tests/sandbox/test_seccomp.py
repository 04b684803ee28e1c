"""The filter, run by an interpreter of BPF, for both architectures; that for this machine runs in the tests
of escapes too."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from skillwire.sandbox.seccomp import ALLOW, KILL, MACHINES, MISSING, REFUSE, filter_bytes, filter_program

HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}


def decide(machine: str, name: str | int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would do with a call."""
    known = MACHINES[machine]
    number = name if isinstance(name, int) else known.numbers[name]
    values = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", number, known.audit if audit is None else audit, 0, *values)
    program = filter_program(known)
    at = value = 0
    for _ in range(len(program)):
        operation, if_true, if_false, operand = program[at]
        at += 1
        match operation:
            case 0x20:
                value = struct.unpack_from("<I", data, operand)[0]
            case 0x06:
                return operand
            case 0x05:
                at += operand
            case _:
                is_true = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[
                    operation
                ]
                at += if_true if is_true else if_false
    raise AssertionError("a filter has no loops")


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_decides(machine: str) -> None:
    for name in (
        "ptrace",
        "mount",
        "unshare",
        "setns",
        "keyctl",
        "bpf",
        "io_uring_setup",
        "shmget",
        "reboot",
        "msgget",
    ):
        assert decide(machine, name) == REFUSE, name
    for name in ("clone3", "openat2", "memfd_create", "memfd_secret"):
        assert decide(machine, name) == MISSING, name
    assert decide(machine, "clone", 0x11) == ALLOW
    assert decide(machine, "clone", 0x3D0F00) == ALLOW  # A thread.
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide(machine, "clone", flag | 0x11) == REFUSE
    assert decide(machine, "ioctl", 0, 0x5401) == ALLOW
    for request in (0x5412, 0x541C, 0x100005412):
        assert decide(machine, "ioctl", 0, request) == REFUSE
    for family, protocol, decision in (
        (1, 0, ALLOW),
        (2, 0, ALLOW),
        (10, 0, ALLOW),
        (16, 0, ALLOW),
        (16, 9, REFUSE),
    ):
        assert decide(machine, "socket", family, 1, protocol) == decision
    for family in (0, 17, 21, 38, 40, 44):
        assert decide(machine, "socket", family, 1, 0) == REFUSE
    assert decide(machine, "fchmod", 3, 0o755) == ALLOW
    assert decide(machine, "fchmod", 3, 0o4755) == decide(machine, "fchmodat", 3, 0, 0o2755) == REFUSE
    assert decide(machine, "openat", 3, 0, 0o101, 0o4644) == REFUSE
    assert (
        decide(machine, "openat", 3, 0, 0o101, 0o644) == decide(machine, "openat", 3, 0, 0, 0o4644) == ALLOW
    )
    assert decide(machine, "personality", 0) == decide(machine, "personality", 0xFFFFFFFF) == ALLOW
    assert decide(machine, "personality", 0x40000) == REFUSE


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    other = next(one for name, one in MACHINES.items() if name != machine)
    assert decide(machine, 1, audit=other.audit) == decide(machine, 1, audit=0x40000003) == KILL
    assert decide(machine, 0x40000001) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_every_other_call_is_allowed(machine: str) -> None:
    named = set(MACHINES[machine].numbers.values())
    assert {decide(machine, number) for number in range(600) if number not in named} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"{path} is not here")
    known = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
    ours = MACHINES[machine].numbers
    assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
    assert len(ours.keys() & known.keys()) > 60


@pytest.mark.parametrize("machine", MACHINES)
def test_no_jump_is_too_long(machine: str) -> None:
    program = filter_program(MACHINES[machine])
    assert all(max(one[1], one[2]) < 256 for one in program)
    assert len(program) < 256
    assert len(filter_bytes(MACHINES[machine])) == 8 * len(program)
