"""The system calls that a script may not make, as a seccomp filter in BPF. Pure.

Namespaces and dropped capabilities already stop nearly all of these calls. The filter is a second barrier,
and the only one for four things: `TIOCSTI`, which types into a terminal; keyrings and `AF_VSOCK`, which no
namespace separates; and bits that make a file in a granted folder setuid.

1. Calls of another architecture end the process: their numbers mean other calls.
2. What needs no look at its arguments is refused with `EPERM`.
3. `clone3` and `openat2` hide their flags behind a pointer that BPF cannot follow. They "do not exist", so
   that programs use `clone` and `openat`. Nor does `memfd_create`: programs use a file in /tmp or /dev/shm.
4. The rest depends on one or two arguments.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
REFUSE: Final = 0x00050000 | errno.EPERM
MISSING: Final = 0x00050000 | errno.ENOSYS

_LOAD, _SKIP, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32: Final = 0x40000000

_NEW_NAMESPACES: Final = 0x7E020080  # Every CLONE_NEW… flag, that for time as well.
_SETUID_BITS: Final = 0o6000
_O_CREAT: Final = 0o100
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_NETLINK: Final = 16

# Other processes and their memory; mounts and namespaces; keyrings; large or young parts of the kernel; what
# belongs to the machine; memory that belongs to no process, which a monitor could not count.
_REFUSED_TEXT: Final = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
    unshare setns name_to_handle_at open_by_handle_at
    keyctl add_key request_key
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    fanotify_init fanotify_mark move_pages mbind migrate_pages set_mempolicy set_mempolicy_home_node
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl
    quotactl_fd syslog vhangup lookup_dcookie nfsservctl settimeofday clock_settime clock_adjtime adjtimex
    sethostname setdomainname iopl ioperm modify_ldt uselib ustat sysfs _sysctl
    shmget msgget
"""
_REFUSED: Final = _REFUSED_TEXT.split()
_MISSING: Final = ("clone3", "openat2", "memfd_create", "memfd_secret")
# Which argument is the mode of a file, and which the flags that say whether there is one.
_MODES: Final = {
    "chmod": (1, None),
    "fchmod": (1, None),
    "fchmodat": (2, None),
    "fchmodat2": (2, None),
    "creat": (1, None),
    "mknod": (1, None),
    "mknodat": (2, None),
    "open": (2, 1),
    "openat": (3, 2),
}

# Since Linux 5.1, a new call has the same number everywhere.
_SHARED: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "set_mempolicy_home_node": 450,
    "fchmodat2": 452,
}


def _numbers(text: str) -> dict[str, int]:
    words = text.split()
    return _SHARED | {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


class Machine(NamedTuple):
    """An architecture as a filter sees it: the kernel's name of it, and the numbers of its calls."""

    audit: int
    numbers: dict[str, int]


MACHINES: Final = {
    "x86_64": Machine(
        0xC000003E,
        _numbers("""
            open 2 ioctl 16 shmget 29 socket 41 clone 56 msgget 68 creat 85 chmod 90 fchmod 91 ptrace 101
            syslog 103 mknod 133 uselib 134
            personality 135 ustat 136 sysfs 139 vhangup 153 modify_ldt 154 pivot_root 155
            _sysctl 156 adjtimex 159 chroot 161 acct 163 settimeofday 164 mount 165 umount2 166 swapon 167
            swapoff 168 reboot 169 sethostname 170 setdomainname 171 iopl 172 ioperm 173 init_module 175
            delete_module 176 quotactl 179 nfsservctl 180 lookup_dcookie 212 clock_settime 227 mbind 237
            set_mempolicy 238 kexec_load 246 add_key 248 request_key 249 keyctl 250 migrate_pages 256
            openat 257 mknodat 259 fchmodat 268 unshare 272 move_pages 279 perf_event_open 298
            fanotify_init 300 fanotify_mark 301 name_to_handle_at 303 open_by_handle_at 304 clock_adjtime 305
            setns 308 process_vm_readv 310 process_vm_writev 311 kcmp 312 finit_module 313
            memfd_create 319 kexec_file_load 320 bpf 321 userfaultfd 323
        """),
    ),
    "aarch64": Machine(
        0xC00000B7,
        _numbers("""
            lookup_dcookie 18 ioctl 29 mknodat 33 umount2 39 mount 40 pivot_root 41 nfsservctl 42 chroot 51
            fchmod 52 fchmodat 53 openat 56 vhangup 58 quotactl 60 acct 89 personality 92 unshare 97
            kexec_load 104 init_module 105 delete_module 106 clock_settime 112 syslog 116 ptrace 117
            reboot 142 sethostname 161 setdomainname 162 settimeofday 170 adjtimex 171 msgget 186
            shmget 194 socket 198 add_key 217
            request_key 218 keyctl 219 clone 220 swapon 224 swapoff 225 mbind 235 set_mempolicy 237
            migrate_pages 238 move_pages 239 perf_event_open 241 fanotify_init 262 fanotify_mark 263
            name_to_handle_at 264 open_by_handle_at 265 clock_adjtime 266 setns 268 process_vm_readv 270
            process_vm_writev 271 kcmp 272 finit_module 273 memfd_create 279 bpf 280
            userfaultfd 282 kexec_file_load 294
        """),
    ),
}

Instruction: TypeAlias = tuple[int, int, int, int]
"""Operation, how many instructions to skip if it is true, if it is false, and its value."""


def filter_program(machine: Machine) -> list[Instruction]:
    """The filter for one architecture. A call that no rule names is allowed."""
    numbers = machine.numbers
    program: list[Instruction] = [
        # 1. Another architecture, and on x86_64 the x32 numbers of the same one.
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, KILL),
    ]
    # 2. and 3.
    for names, action in ((_REFUSED, REFUSE), (_MISSING, MISSING)):
        known = [numbers[name] for name in names if name in numbers]
        program += [(_EQUAL, len(known) - at, 0, number) for at, number in enumerate(known)]
        program += [(_SKIP, 0, 0, 1), (_RETURN, 0, 0, action)]
    # 4. Each rule ends with a decision, so that no later one needs the number again.
    program += _rule(
        numbers["clone"], [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, REFUSE)]
    )
    program += _rule(
        numbers["ioctl"],
        [_argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), (_RETURN, 0, 0, REFUSE)],
    )
    program += _rule(
        numbers["personality"],
        [_argument(0), (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, 0xFFFFFFFF), (_RETURN, 0, 0, REFUSE)],
    )
    families = [(_EQUAL, 3 + len(_FAMILIES) - at, 0, int(one)) for at, one in enumerate(_FAMILIES)]
    program += _rule(
        numbers["socket"],
        [
            _argument(0),
            *families,
            (_EQUAL, 0, 2, _NETLINK),  # For the list of interfaces, protocol 0, and for nothing else.
            _argument(2),
            (_EQUAL, 1, 0, 0),
            (_RETURN, 0, 0, REFUSE),
        ],
    )
    for name, (mode, flags) in _MODES.items():
        if name in numbers:
            has_mode = [] if flags is None else [_argument(flags), (_ANY_BIT, 0, 3, _O_CREAT)]
            refused = [_argument(mode), (_ANY_BIT, 0, 1, _SETUID_BITS), (_RETURN, 0, 0, REFUSE)]
            program += _rule(numbers[name], [*has_mode, *refused])
    return [*program, (_RETURN, 0, 0, ALLOW)]


def filter_bytes(machine: Machine) -> bytes:
    """The filter as the kernel reads it."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in filter_program(machine))


def _argument(index: int) -> Instruction:
    """Load the low half of an argument."""
    return _LOAD, 0, 0, _ARGUMENTS_AT + 8 * index


def _rule(number: int, tests: Sequence[Instruction]) -> list[Instruction]:
    """Tests for one call, which is allowed if they reach their end."""
    return [(_EQUAL, 0, len(tests) + 1, number), *tests, (_RETURN, 0, 0, ALLOW)]
