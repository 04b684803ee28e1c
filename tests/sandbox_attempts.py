"""Scripts that try to leave the sandbox. Each prints ESCAPED if it succeeds.

Each is a script of its own. `W` is what surrounds the sandbox: files, sockets and processes outside, and what is
granted. An attempt whose control is `bare` succeeds when it runs without a sandbox, which is tested too: so a
test that could not fail is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = """
import ctypes, errno, glob, json, os, resource, signal, socket, stat, struct, subprocess, sys, time
W = json.load(open(sys.argv[1]))
W["secret"] = W["reversed"][::-1]  # Not as it is in this file, which a script may read.
libc = ctypes.CDLL(None, use_errno=True)
def escaped(*what):
    print("ESCAPED", *what)
    sys.exit(0)
def read(path):
    data = open(path, "rb").read(4096)
    if W["secret"].encode() in data:
        escaped(path)
def syscall(number, *arguments):
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *arguments)
    return result, ctypes.get_errno()
X86 = os.uname().machine == "x86_64"
def nr(x86, arm):
    return x86 if X86 else arm
def refused(number, *arguments, allowed=(errno.EPERM, errno.ENOSYS)):
    result, error = syscall(number, *arguments)
    if result != -1 or error not in allowed:
        escaped("syscall", number, "gave", result, os.strerror(error))
def attempt(act, *arguments, **options):
    try:
        return act(*arguments, **options)
    except (OSError, ValueError, OverflowError):
        return None
def through_proxy(request):
    # On loopback, where the proxy of the sandbox is.
    with socket.create_connection(("127.0.0.1", 3128), 5) as s:
        s.sendall(request)
        data = b""
        while more := s.recv(65536):
            data += more
            if W["secret"].encode() in data:
                escaped(request)
        return data
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One script. `bare` says that it succeeds without a sandbox, for any user."""

    name: str
    code: str
    bare: bool = False
    group: str = ""


def _group(name: str, text: str) -> list[Attempt]:
    """Attempts, each after a line `== NAME`, with `bare` behind it if it has that control."""
    found: list[Attempt] = []
    for part in text.split("\n== ")[1:]:
        head, _, code = part.partition("\n")
        words = head.split()
        found.append(Attempt(words[0], code, bare="bare" in words[1:], group=name))
    return found


FILES = _group(
    "files outside",
    """
== absolute-path bare
read(W["secret_file"])
== dot-dot-from-a-granted-folder bare
read(W["docs"] + "/../secret.txt")
== list-the-parent-of-a-granted-folder bare
if "secret.txt" in os.listdir(os.path.dirname(W["docs"])): escaped()
== link-in-scratch bare
os.symlink(W["secret_file"], link := f"/tmp/link-{os.getpid()}")
try: read(link)
finally: os.unlink(link)
== link-in-a-granted-folder bare
os.symlink(W["secret_file"], link := W["out"] + "/link")
try: read(link)
finally: os.unlink(link)
== link-that-was-there-before bare
read(W["docs"] + "/link-to-secret")
== hard-link-to-a-file-outside bare
os.link(W["secret_file"], link := W["out"] + "/hard")
try: read(link)
finally: os.unlink(link)
== hard-link-from-reading-to-writing bare
os.link(W["docs"] + "/text.txt", link := W["out"] + "/hard2")
open(link, "a").write("x"); os.unlink(link); escaped()
== root-of-process-1
read("/proc/1/root" + W["secret_file"])
== own-root bare
read("/proc/self/root" + W["secret_file"])
== root-of-every-process bare
for root in glob.glob("/proc/[0-9]*/root"): attempt(read, root + W["secret_file"])
== working-folder-of-every-process bare
for cwd in glob.glob("/proc/[0-9]*/cwd"): attempt(read, cwd + "/" + os.path.relpath(W["secret_file"], "/"))
attempt(read, "/proc/self/cwd/" + os.path.relpath(W["secret_file"], os.getcwd()))
== descriptors-of-every-process
for fd in glob.glob("/proc/[0-9]*/fd/*"): attempt(read, fd) if stat.S_ISREG(os.stat(fd).st_mode if os.path.exists(fd) else 0) else None
== inherited-descriptors
extra = [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")]
if extra: escaped(extra, [os.readlink(f"/proc/self/fd/{fd}") for fd in extra])
== dot-dot-through-a-descriptor
for fd in range(64):
    if attempt(os.open, "../" * 20 + W["secret_file"].strip("/"), os.O_RDONLY, dir_fd=fd): escaped(fd)
== standard-input
if not stat.S_ISCHR(os.fstat(0).st_mode) or os.read(0, 1): escaped()
== home-of-the-user bare
os.listdir(W["home"]); escaped()
== names-of-users
if len(open("/etc/passwd").readlines()) > 3: escaped()
== passwords
open("/etc/shadow").read(); escaped()
== private-keys-of-the-system
for folder in ("/etc/ssl/private", "/etc/ssh", "/root", "/var/lib", "/run/secrets"):
    if os.path.isdir(folder): escaped(folder)
== the-folder-that-holds-its-skill
if glob.glob(W["temporary"] + "/skillwire-run-*"): escaped()
== scratch-is-not-the-temporary-folder bare
if os.path.exists(W["temporary"] + "/outside-marker"): escaped()
== shared-memory-is-its-own
open("/dev/shm/" + W["mark"], "w").write("x")
== file-handles
class Handle(ctypes.Structure): _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_char * 128)]
handle = Handle(8, 1, b"\\2")
refused(nr(304, 265), os.open("/usr", os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)
== unlisted-sys
if os.path.exists("/sys/kernel"): escaped()
== run-folder
if os.path.exists("/run/lock") or os.path.exists("/var/run"): escaped()
""",
)

WRITING = _group(
    "changing files",
    """
== its-own-script
open(__file__, "a").write("x"); escaped()
== remove-its-own-script
os.unlink(__file__); escaped()
== replace-its-own-script
open("/tmp/new", "w").write("x"); os.rename("/tmp/new", __file__); escaped()
== make-its-own-script-writable
os.chmod(__file__, 0o777); escaped()
== a-new-file-in-the-skill
open("/skill/new.py", "w"); escaped()
== write-what-may-be-read bare
open(path := W["docs"] + "/new.txt", "w"); os.unlink(path); escaped()
== change-what-may-be-read bare
open(W["docs"] + "/text.txt", "a").write(""); escaped()
== open-for-reading-then-writing-by-descriptor
fd = os.open(W["docs"] + "/text.txt", os.O_RDONLY)
open(f"/proc/self/fd/{fd}", "a"); escaped()
== system-programs
open("/usr/bin/skillwire-attempt", "w"); escaped()
== system-configuration
open("/etc/new", "w"); escaped()
== root-folder
open("/new", "w"); escaped()
== folder-of-devices
open("/dev/new", "w"); escaped()
== setuid-bit
open(path := W["out"] + "/suid", "w"); os.chmod(path, 0o4755)
if os.stat(path).st_mode & 0o6000: escaped()
== setuid-bit-by-descriptor
fd = os.open(W["out"] + "/suid2", os.O_CREAT | os.O_WRONLY); os.fchmod(fd, 0o4755)
if os.fstat(fd).st_mode & 0o6000: escaped()
== setuid-bit-at-creation
fd = os.open(W["out"] + "/suid3", os.O_CREAT | os.O_WRONLY, 0o4755)
if os.fstat(fd).st_mode & 0o6000: escaped()
== setuid-bit-by-a-new-call
open(path := W["out"] + "/suid4", "w")
syscall(452, -100, ctypes.c_char_p(path.encode()), 0o4755, 0)
how = (ctypes.c_ulonglong * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
syscall(437, -100, ctypes.c_char_p((W["out"] + "/suid5").encode()), how, 24)
syscall(nr(259, 33), -100, ctypes.c_char_p((W["out"] + "/suid6").encode()), stat.S_IFREG | 0o4755, 0)
for path in glob.glob(W["out"] + "/suid*"):
    if os.stat(path).st_mode & 0o6000: escaped(path)
== owner-of-a-file
open(path := W["out"] + "/owned", "w"); os.chown(path, 0, 0)
if os.stat(path).st_uid == 0: escaped()
""",
)

SECRETS = _group(
    "environment and secrets of the parent",
    """
== own-environment bare
if W["secret"] in repr(dict(os.environ)): escaped()
== environment-of-every-process bare
for path in glob.glob("/proc/[0-9]*/environ"): attempt(read, path)
== environment-of-the-first-process
read("/proc/1/environ")
if len(open("/proc/1/environ").read()) > 2000: escaped()
== processes-outside-are-listed bare
for path in glob.glob("/proc/[0-9]*/cmdline"):
    if W["victim_mark"].encode() in (attempt(lambda: open(path, "rb").read()) or b""): escaped(path)
== memory-of-the-first-process
open("/proc/1/mem", "rb").read(1); escaped()
== keyring-of-the-session
refused(nr(250, 219), 0, -3, 0)
== new-key
refused(nr(248, 217), ctypes.c_char_p(b"user"), ctypes.c_char_p(b"attempt"), ctypes.c_char_p(b"x"), 1, -4)
== requested-key
refused(nr(249, 218), ctypes.c_char_p(b"user"), ctypes.c_char_p(b"attempt"), None, 0)
== kernel-log
refused(nr(103, 116), 3, ctypes.create_string_buffer(4096), 4096)
== kernel-memory
open("/proc/kcore", "rb").read(16); escaped()
== name-of-the-machine bare
if os.uname().nodename == W["nodename"]: escaped()
""",
)

NETWORK = _group(
    "network",
    """
== tcp-to-this-machine bare
with socket.create_connection(("127.0.0.1", W["closed_port"]), 2) as s: escaped()
== tcp-to-an-address-of-this-machine bare
for address in W["addresses"]: attempt(lambda: socket.create_connection((address, W["closed_port"]), 2)) and escaped()
== ipv6 bare
with socket.create_connection(("::1", W["closed_port6"]), 2) as s: escaped()
== udp
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
s.sendto(b"x", ("127.0.0.1", W["udp_port"])); s.recv(10); escaped()
== a-public-address
with socket.create_connection(("192.0.2.1", 80), 2) as s: escaped()
== name-service
socket.getaddrinfo("example.org", 80); escaped()
== name-service-by-datagram
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for server in W["nameservers"] or ["192.0.2.53"]: s.sendto(b"\\0" * 12, (server, 53)); escaped(server)
== metadata-service
with socket.create_connection(("169.254.169.254", 80), 2) as s: escaped()
== unix-socket bare
s = socket.socket(socket.AF_UNIX); s.connect(W["unix_socket"]); escaped()
== unix-socket-through-a-granted-link
os.symlink(W["unix_socket"], link := f"/tmp/sock-{os.getpid()}")
s = socket.socket(socket.AF_UNIX); s.connect(link); escaped()
== abstract-socket bare
s = socket.socket(socket.AF_UNIX); s.connect("\\0" + W["mark"]); escaped()
== abstract-sockets-are-listed bare
if W["mark"] in open("/proc/net/unix").read(): escaped()
== vsock
refused(nr(41, 198), 40, 1, 0)
== packets
refused(nr(41, 198), 17, 3, 0x300)
== raw-ip
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); escaped()
== kernel-cryptography
refused(nr(41, 198), 38, 5, 0)
== netlink-of-the-audit-system
refused(nr(41, 198), 16, 3, 9)
== new-interface
if subprocess.run(["ip", "link", "add", "d0", "type", "dummy"], capture_output=True).returncode == 0: escaped()
== only-loopback
if [name for _, name in socket.if_nameindex() if name != "lo"]: escaped()
== no-routes
if len(open("/proc/net/route").readlines()) > 1: escaped()
== join-the-network-of-another-process
for path in glob.glob("/proc/[0-9]*/ns/net"):
    fd = attempt(os.open, path, os.O_RDONLY)
    if fd is not None: refused(nr(308, 268), fd, 0)
""",
)

PROXY = _group(
    "proxy",
    """
== a-port-that-is-not-granted
through_proxy(b"CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.0\\r\\n\\r\\n" % W["closed_port"])
== the-address-instead-of-the-granted-name
through_proxy(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\n\\r\\nGET /secret HTTP/1.0\\r\\n\\r\\n" % W["closed_port"])
== other-spellings-of-an-address
for host in (b"2130706433", b"0x7f.1", b"127.1", b"0177.0.0.1", b"[::ffff:127.0.0.1]", b"[::1]", b"localhost.", b"LOCALHOST", b"127.0.0.1.example.org"):
    through_proxy(b"GET http://%s:%d/secret HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" % (host, W["closed_port"]))
== metadata-service-by-proxy
for host in (b"169.254.169.254", b"2852039166", b"metadata", b"[fd00:ec2::254]"):
    answer = through_proxy(b"GET http://%s/latest/meta-data/ HTTP/1.1\\r\\n\\r\\n" % host)
    if not answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")): escaped(answer)
== another-host
for host in (b"example.org", b"localhost.example.org", b"xlocalhost", b"localhos", b"local%68ost", b"localhost%00.example.org"):
    answer = through_proxy(b"GET http://%s:%d/ HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" % (host, W["granted_port"]))
    if not answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")): escaped(host, answer)
== user-part-of-a-url
for url in (b"http://localhost:%d@127.0.0.1:%d/secret", b"http://127.0.0.1:%d#@localhost:%d/"):
    answer = through_proxy(b"GET " + url % (W["granted_port"], W["closed_port"]) + b" HTTP/1.1\\r\\n\\r\\n")
    if not answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")): escaped(answer)
== header-names-another-host
answer = through_proxy(b"GET http://localhost:%d/host HTTP/1.1\\r\\nHost: internal.example.org\\r\\n\\r\\n" % W["granted_port"])
if b"internal" in answer or b"localhost" not in answer: escaped(answer)
== two-requests-in-one
answer = through_proxy(b"GET http://localhost:%d/count HTTP/1.1\\r\\n\\r\\nGET /secret-path HTTP/1.1\\r\\nHost: internal.example.org\\r\\n\\r\\n" % W["granted_port"])
if answer.count(b"HTTP/1.") != 1: escaped(answer)
== a-body-that-hides-a-request
answer = through_proxy(b"POST http://localhost:%d/count HTTP/1.1\\r\\nContent-Length: 0\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n" % W["granted_port"])
if not answer.startswith(b"HTTP/1.1 411"): escaped(answer)
== line-feeds-in-a-header
answer = through_proxy(b"GET http://localhost:%d/host HTTP/1.1\\r\\nX: a\\nHost: internal.example.org\\r\\n\\r\\n" % W["granted_port"])
if not answer.startswith(b"HTTP/1.1 400"): escaped(answer)
== not-a-request-to-a-proxy
for line in (b"GET / HTTP/1.1", b"CONNECT / HTTP/1.1", b"GET file:///etc/shadow HTTP/1.1", b"GET ftp://localhost/ HTTP/1.1", b"\\x05\\x01\\x00", b"CONNECT localhost HTTP/1.1", b"GET https://localhost/ HTTP/1.1"):
    answer = through_proxy(line + b"\\r\\n\\r\\n")
    if not answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")): escaped(line, answer)
== redirect-to-another-host
import urllib.request
try:
    read = urllib.request.urlopen("http://localhost:%d/redirect" % W["granted_port"], timeout=5).read()
except urllib.error.HTTPError as error:
    if error.code != 403: escaped(error.code)
else: escaped(read)
""",
)

PROCESSES = _group(
    "processes and privileges",
    """
== trace-a-process
child = os.fork()
if child == 0: signal.pause()
try: refused(nr(101, 117), 16, child, 0, 0)
finally: os.kill(child, 9)
== be-traced
refused(nr(101, 117), 0, 0, 0, 0)
== memory-of-a-process
refused(nr(310, 270), os.getppid(), None, 0, None, 0, 0)
== descriptors-of-another-process
refused(438, 3, 0, 0)
== signal-to-a-process-outside bare
os.kill(W["victim"], 0)
if W["victim"] > 200: escaped()
== handle-of-a-process-outside bare
os.close(os.pidfd_open(W["victim"]))
if W["victim"] > 200: escaped()
== become-root
for act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])): attempt(act)
if 0 in (os.getuid(), os.geteuid(), os.getgid()): escaped()
== capabilities
text = open("/proc/self/status").read()
if any(int(line.split()[1], 16) for line in text.splitlines() if line.startswith("Cap")): escaped(text)
== ask-for-capabilities
header = (ctypes.c_uint * 2)(0x20080522, 0); data = (ctypes.c_uint * 6)(*[0xFFFFFFFF] * 6)
if libc.capset(header, data) == 0: escaped()
== setuid-programs
for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"):
    if os.path.exists(program) and any(" /usr " in line and "nosuid" not in line for line in open("/proc/mounts")): escaped(program)
== new-privileges
if "NoNewPrivs:\\t1" not in open("/proc/self/status").read() or libc.prctl(38, 0, 0, 0, 0) == 0: escaped()
== user-namespace
refused(nr(272, 97), 0x10000000)
== user-namespace-by-clone
refused(nr(56, 220), 0x10000011, 0, 0, 0, 0)
== user-namespace-by-clone3
arguments = (ctypes.c_ulonglong * 11)(0x10000000, 0, 0, 0, 17)
refused(435, arguments, 88)
== every-other-namespace
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x80): refused(nr(272, 97), flag)
== namespaces-by-a-program
for options in ("-U", "-Ur", "-m", "-n", "-p", "-i", "-u"):
    if subprocess.run(["unshare", options, "true"], capture_output=True).returncode == 0: escaped(options)
== namespaces-of-the-first-process
for name in os.listdir("/proc/1/ns"):
    fd = attempt(os.open, f"/proc/1/ns/{name}", os.O_RDONLY)
    if fd is not None: refused(nr(308, 268), fd, 0)
== map-of-users
for name in ("uid_map", "gid_map", "setgroups"):
    if attempt(lambda: os.write(os.open(f"/proc/self/{name}", os.O_WRONLY), b"0 0 1")): escaped(name)
== mount
refused(nr(165, 40), ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/tmp"), ctypes.c_char_p(b"tmpfs"), 0, None)
== remount-for-writing
refused(nr(165, 40), None, ctypes.c_char_p(b"/skill"), None, 0x1020, None)
== unmount
for path in (b"/skill", b"/tmp", b"/proc", b"/"): refused(nr(166, 39), ctypes.c_char_p(path), 2)
== mount-by-new-calls
refused(430, ctypes.c_char_p(b"tmpfs"), 0); refused(428, -100, ctypes.c_char_p(b"/"), 1); refused(429, -100, None, -100, None, 0)
refused(442, -100, ctypes.c_char_p(b"/skill"), 0, None, 0); refused(433, -100, ctypes.c_char_p(b"/"), 0)
== change-root
refused(nr(161, 51), ctypes.c_char_p(b"/tmp")); refused(nr(155, 41), ctypes.c_char_p(b"/tmp"), ctypes.c_char_p(b"/tmp"))
== cgroups
if os.path.exists("/sys/fs/cgroup") or [line for line in open("/proc/mounts") if " cgroup" in line]: escaped()
== raise-its-limits
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    attempt(resource.setrlimit, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if resource.RLIM_INFINITY in resource.getrlimit(kind): escaped(kind)
== priority
attempt(os.setpriority, os.PRIO_PROCESS, 0, -20); attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
if os.getpriority(os.PRIO_PROCESS, 0) < 0 or os.sched_getscheduler(0) == os.SCHED_FIFO: escaped()
== another-architecture
import mmap
if not X86: sys.exit()
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # mov eax, 20 (getpid of i386); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
child = os.fork()
if child == 0: os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0)
status = os.waitpid(child, 0)[1]
if not os.WIFSIGNALED(status): escaped(status)
== x32-numbers
if not X86: sys.exit()
child = os.fork()
if child == 0: syscall(0x40000000 + 39); os._exit(0)
if not os.WIFSIGNALED(os.waitpid(child, 0)[1]): escaped()
""",
)

MACHINE = _group(
    "devices and the machine",
    """
== terminal
fd = os.open("/dev/tty", os.O_RDWR); escaped()
== type-into-a-terminal
master, slave = os.openpty()
import fcntl
try: fcntl.ioctl(slave, 0x5412, b"x"); escaped()
except PermissionError: pass
== type-into-standard-input
import fcntl
for fd in (0, 1, 2):
    try: fcntl.ioctl(fd, 0x5412, b"x"); escaped(fd)
    except OSError as error: error.errno == errno.EPERM or escaped(fd, error)
== type-with-high-bits
result, error = syscall(nr(16, 29), 0, 0x100005412, ctypes.c_char_p(b"x"))
if result == 0 or error != errno.EPERM: escaped(result, error)
== console
refused(nr(16, 29), 0, 0x541C, ctypes.c_char_p(b"\\2"))
== devices-of-the-machine
for path in ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/sda", "/dev/vda", "/dev/nvme0", "/dev/loop0", "/dev/net/tun", "/dev/vsock", "/dev/tty0", "/dev/console", "/dev/dri", "/dev/snd"):
    if os.path.exists(path): escaped(path)
== new-device
for kind, device in ((stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFBLK, os.makedev(254, 0))):
    attempt(os.mknod, "/tmp/device", kind | 0o666, device)
    if os.path.exists("/tmp/device"): escaped()
    attempt(os.mknod, W["out"] + "/device", kind | 0o666, device)
    if os.path.exists(W["out"] + "/device"): escaped()
== core-pattern
pattern = open("/proc/sys/kernel/core_pattern").read()
open("/proc/sys/kernel/core_pattern", "w").write(pattern); escaped()
== settings-of-the-kernel
for path in ("/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/modprobe", "/proc/sys/user/max_user_namespaces"):
    if os.path.exists(path) and attempt(lambda: os.close(os.open(path, os.O_WRONLY)) or True): escaped(path)
== system-request
os.open("/proc/sysrq-trigger", os.O_WRONLY); escaped()
== interrupts-and-buses
for path in ("/proc/irq/default_smp_affinity", "/proc/bus/pci/new"):
    if attempt(lambda: os.close(os.open(path, os.O_WRONLY)) or True): escaped(path)
== restart
refused(nr(169, 142), 0xFEE1DEAD, 672274793, 0)  # CAD off: harmless if it worked.
== name-of-the-host
refused(nr(170, 161), ctypes.c_char_p(b"x"), 1)
== clock
refused(nr(164, 170), None, None); refused(nr(227, 112), 0, None); refused(nr(159, 171), None)
== kernel-modules
refused(nr(175, 105), None, 0, None); refused(nr(313, 273), 0, None, 0); refused(nr(176, 106), ctypes.c_char_p(b"x"), 0)
== another-kernel
refused(nr(246, 104), 0, 0, None, 0); refused(nr(320, 294), 0, 0, 0, None, 0)
== bpf
refused(nr(321, 280), 0, None, 0)
== performance-events
refused(nr(298, 241), None, 0, -1, -1, 0)
== io-uring
refused(425, 8, None)
== page-faults
refused(nr(323, 282), 0)
== watch-the-file-system
refused(nr(300, 262), 0, 0)
== swap-and-accounting
refused(nr(167, 224), ctypes.c_char_p(b"/tmp/x"), 0); refused(nr(163, 89), ctypes.c_char_p(b"/tmp/x")); refused(nr(179, 60), 0, None, 0, None)
== personality
refused(nr(135, 92), 0x0040000)
== memory-of-no-process
refused(nr(29, 194), 0, 1 << 30, 0o1600); refused(nr(68, 186), 0, 0o1600); refused(nr(319, 279), ctypes.c_char_p(b"x"), 0); refused(447, 0)
== ports-of-the-machine
if X86: refused(172, 3); refused(173, 0, 10, 1)
""",
)

ATTEMPTS = [*FILES, *WRITING, *SECRETS, *NETWORK, *PROXY, *PROCESSES, *MACHINE]
"""All attempts that one sandbox can make one after the other."""

# Runs every other script of the skill in a process of its own, and prints what each said. They are forked, not
# started anew: an interpreter takes longer to start than an attempt to fail.
DRIVER = """
import ctypes, errno, glob, json, mmap, os, resource, runpy, signal, socket, stat, struct, subprocess, sys, time
import traceback, urllib.request
def run(name):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1); os.dup2(write, 2); os.close(read); os.close(write)
        signal.alarm(20)
        sys.argv[:] = [f"{folder}/{name}.py", facts]
        code = 0
        try: runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit: pass
        except BaseException: code = 1; traceback.print_exc()
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as output: said = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode("utf-8", "replace")[-600:]
facts, folder, names = sys.argv[1:4]
print(json.dumps({name: run(name) for name in names.split(",")}))
"""
