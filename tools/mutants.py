"""Change one security line at a time and see whether a test notices: `make mutants`.

Each mutation is a piece of source text and what takes its place. The tests named with its group must fail on
the changed copy; a mutation that survives, or whose text is no longer there, ends the run with an error. Your
checkout is not touched. `python -m tools.mutants --only cache,verify` runs a part, `--list` shows them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
COPIED = (
    "src",
    "tests",
    "tools",
    "examples",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
COPIED += ("CONTRIBUTING.md", "constraints.txt", "Makefile")
LONGEST_SECONDS = 900
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-m",
    "not interop and not soak",
)


@dataclass(frozen=True, slots=True)
class Group:
    """Mutations of one file, and the tests that guard it."""

    name: str
    file: str
    tests: str
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    group: Group
    number: int

    @property
    def name(self) -> str:
        return f"{self.group.name}-{self.number + 1}"

    @property
    def change(self) -> tuple[str, str]:
        return self.group.changes[self.number]


GROUPS = (
    Group(
        "adapters",
        "adapters/calls.py",
        "tests/adapters/test_calls.py",
        (
            (
                "        return questions[-1].digest in given\n\n    async def ask_read",
                "        return True\n\n    async def ask_read",
            ),
            (
                "        return questions[-1].digest in given\n\n    with host",
                "        return True\n\n    with host",
            ),
            ("    if host.admin.can_ask:\n", "    if False:\n"),
            (
                'self._shown.pop(_call_key(tool.name, arguments), "")',
                'self._shown.get(_call_key(tool.name, arguments), "")',
            ),
            ("return json.dumps([name, dict(arguments)], sort_keys=True, default=str)", "return name"),
            ("    if not unanswered:\n", "    if True:\n"),
        ),
    ),
    Group(
        "registry-catalog",
        "registry/catalog.py",
        "tests/registry/test_store.py",
        (
            ("if self._view.has(place.namespace) else None", "if True else None"),
            ("        if not self._view.has(place.namespace):\n            return None\n", ""),
            (
                "            seen.append(channels.c.namespace.in_(sorted(self._view.namespaces)))\n",
                "            pass\n",
            ),
            ("return named if self._view.has(namespace) else {}", "return named"),
        ),
    ),
    Group(
        "registry-publishing",
        "registry/publishing.py",
        "tests/registry/test_store.py",
        (
            (
                ".where(skills.c.namespace == draft.namespace, files.c.digest.in_(sorted(wanted)))",
                ".where(files.c.digest.in_(sorted(wanted)))",
            ),
            ("            if sizes[file.digest] != file.size:\n", "            if False:\n"),
            ("        if not verdict.is_signed:\n", "        if False:\n"),
            (
                "if existing is not None and existing.set_digest != draft.set_digest:",
                "if False:",
            ),
            ("if existing is not None and existing.yanked is not None:", "if False:"),
            ("        if used > quota:\n", "        if False:\n"),
        ),
    ),
    Group(
        "registry-access",
        "registry/access.py",
        "tests/registry/test_app.py tests/registry/test_commands.py",
        (
            ("tokens.c.hash == _hash(token), tokens.c.revoked_at.is_(None)", "tokens.c.hash == _hash(token)"),
            ("self.roles.get(ALL, 0)) >= role", "self.roles.get(ALL, 0)) >= Role.READ"),
            ("if subject == ANYONE and role not in (None, Role.READ):", "if False:"),
        ),
    ),
    Group(
        "registry-app",
        "registry/app.py",
        "tests/registry/test_app.py",
        (
            ("elif not self._hosts.match(scope):", "elif False:"),
            ("if caller is None or not caller.roles:", "if caller is None:"),
            ("if caller is None or caller.view != view:", "if caller is None:"),
            ("if caller is None or caller.view != view:", "if caller and caller.view != view:"),
            ("if not caller.may(Role.READ, draft.namespace):", "if False:"),
            ("if not caller.may(Role.PUBLISH, draft.namespace):", "if False:"),
            ("if any(digest_of(data) not in wanted for data in contents):", "if False:"),
            ("if not length.isdigit() or int(length) > most:", "if False:"),
        ),
    ),
    Group(
        "registry-login",
        "registry/login.py",
        "tests/registry/test_app.py",
        (
            ("                audience=self.settings.audience,\n", ""),
            ("                issuer=self.settings.issuer,\n", ""),
            ('"require": ["exp", "iss", "aud", "sub"]', '"require": []'),
        ),
    ),
    Group(
        "gateway-asking",
        "gateway/asking.py",
        "tests/gateway/test_asking.py",
        (
            ("if not says_yes(given):", "if False:"),
            ("if self._desk.now() - asked.at >= QUICKEST_ANSWER:", "if True:"),
            ("if name != caller.name or nonce in self._used", "if nonce in self._used"),
            ("if name != caller.name or nonce in self._used", "if name != caller.name"),
            ("if question is None or question.subject != asked.subject:", "if question is None:"),
        ),
    ),
    Group(
        "gateway-callers",
        "gateway/callers.py",
        "tests/gateway/test_callers.py",
        (
            ("if self.labels is not None and parts.authority not in self.labels:", "if False:"),
            ("if self.include and not any(", "if False and not any("),
            ("return not any(fnmatchcase(path, pattern) for pattern in self.exclude)", "return True"),
            ("not _HEADER.fullmatch(header) or header in _NEVER_PASSED", "not _HEADER.fullmatch(header)"),
            (
                'return given[0].decode("latin-1").strip() if len(given) == 1 else ""',
                'return given[0].decode("latin-1").strip() if given else ""',
            ),
            ("        if digest in callers:\n", "        if False:\n"),
        ),
    ),
    Group(
        "gateway-http",
        "gateway/http.py",
        "tests/gateway/test_callers.py",
        (
            (
                "        if caller is None:\n            await self._refuse_token(scope, send)",
                "        if False:\n            await self._refuse_token(scope, send)",
            ),
            ("if seconds := self._rates.wait_seconds(caller.name):", "if seconds := 0:"),
            ("if is_idle or is_surplus or known != endpoint.caller:", "if is_idle or is_surplus:"),
            ("endpoint.caller is not caller and endpoint.caller != caller", "False"),
            ("key = (caller.name, *_passed(caller, scope))", "key = (caller.name,)"),
            ("if caller is not None and scope", "if scope"),
        ),
    ),
    Group(
        "gateway-upstreams",
        "gateway/upstreams.py",
        "tests/gateway",
        (
            ("            if fresh.entry != skill.entry:\n                raise Superseded from error\n", ""),
            ("            self._fail(skill, str(error))\n            raise\n", "            raise\n"),
            (
                "        if file.bound:\n            self._memory",
                "        if True:\n            self._memory",
            ),
            ("for offer in made.values() if not self._is_failed(offer)}", "for offer in made.values()}"),
        ),
    ),
    Group(
        "gateway-locked",
        "gateway/locked.py",
        "tests/gateway/test_locked.py",
        (
            ("pinned.name != name", "False"),
            (
                'return pin.kind != "mcp" or (pin.get("server"), pin.get("uri")) == (label, uri)',
                "return True",
            ),
            ('(pin.get("server"), pin.get("uri")) == (label, uri)', 'pin.get("uri") == uri'),
            ('(pin.get("server"), pin.get("uri")) == (label, uri)', 'pin.get("server") == label'),
        ),
    ),
    Group(
        "gateway-approvals",
        "gateway/approvals.py",
        "tests/gateway",
        (
            (
                "self.store.get(skill.origin, skill.uri, caller=caller.name)\n\n    def facts",
                "self.store.get(skill.origin, skill.uri)\n\n    def facts",
            ),
        ),
    ),
    Group(
        "gateway-view",
        "gateway/view.py",
        "tests/gateway",
        (
            ("            self.require(offer)\n            data = await", "            data = await"),
            (
                "            self.require(offer)  # It may have been revoked",
                "            pass  # It may have been revoked",
            ),
            (
                "            if not self._is_visible(offer):\n                break",
                "            if False:\n                break",
            ),
            ("if self._lock is not None and not self._lock.is_current():", "if False:"),
            ("self._lock.revision if self._lock else 0)", "0)"),
            ("        if not self.caller.allows(offer.root):\n            return False\n", ""),
            ("if caller.sees_label(label) and not is_hidden:", "if caller.sees_label(label):"),
        ),
    ),
    Group(
        "replay",
        "host/loader.py",
        "tests/host/test_compaction.py",
        (
            ('            return "has changed since it was loaded"\n', "            pass\n"),
            ('                return "is no longer approved"\n', "                pass\n"),
            ('            return "is no longer served"\n', "            return held.verified\n"),
        ),
    ),
    Group(
        "verify",
        "trust/verify.py",
        "tests/attacks/test_weakened_lines.py tests/trust/test_verify.py",
        (
            ("if digest != listed.digest:", "if False:"),
            ("if digest != listed.digest:", "if digest[:20] != listed.digest[:20]:"),
            ("if listed.size != NO_SIZE and len(data) != listed.size:", "if False:"),
            ("len(data) != listed.size:", "len(data) < listed.size:"),
            ("        if listed is None:\n", "        if False:\n"),
            (
                "        if not is_inside(uri, root):\n            raise",
                "        if False:\n            raise",
            ),
            ("if _known_digest(entry, uri) not in (None, digest):", "if False:"),
            ("if retrieved + len(data) > limits.bytes_per_skill:", "if len(data) > limits.bytes_per_skill:"),
            (
                "    if differences:\n        raise FrontmatterMismatch",
                "    if False:\n        raise FrontmatterMismatch",
            ),
            ("if len(entry.resources) > limits.files_per_skill:", "if False:"),
            ("if entry.total_size > limits.bytes_per_skill:", "if False:"),
            ("if entry.name != expected:", "if False:"),
            ("if resource.uri in seen:", "if False:"),
            ("if not is_inside(resource.uri, root):", "if False:"),
            ("if any(parent in seen for parent in _parents(uri, root)):", "if False:"),
            ("if entry.uri not in seen:", "if False:"),
            ("if seal is not _SEAL:", "if seal is None:"),
            ("bound=not entry.is_dynamic,", "bound=True,"),
        ),
    ),
    Group(
        "admission",
        "trust/admission.py",
        "tests/trust/test_admission.py",
        (
            ("if skill.unavailable:", "if False:"),
            ("if not skill.selected:", "if False:"),
            ("if skill.style_refusal:", "if False:"),
            ("if skill.disabled:", "if False:"),
            ("if skill.policy is Policy.NEVER:", "if False:"),
            ("covered is Coverage.EQUAL:", "covered is not Coverage.NONE:"),
            ("Policy.ALWAYS and not skill.nested and not", "Policy.ALWAYS and not"),
            ("not skill.nested and not skill.signer_change:", "not skill.nested:"),
            ("if act is Act.LOAD and (missing := missing_publisher(skill)):", "if False:"),
            ("    if act is Act.OFFER:\n", "    if act is not Act.LIST:\n"),
            (
                "if verdict is None or not verdict.is_signed or",
                "if verdict is not None and not verdict.is_signed or",
            ),
            ("not verdict.is_signed or verdict.publisher != name:", "not verdict.is_signed:"),
            ("or not verdict.is_signed or verdict.publisher != name:", "or verdict.publisher != name:"),
            ("if skill.declined:", "if False:"),
            ("if skill.policy is Policy.PINNED:", "if False:"),
            ("        return Allowed(NO_GRANTS)\n", "        return Allowed(ALL_GRANTS)\n"),
        ),
    ),
    Group(
        "approval",
        "trust/approval.py",
        "tests/trust/test_approval.py tests/trust/test_admission.py",
        (
            ("approval.resources == resource_set(entry)", "approval.resources <= resource_set(entry)"),
            ("approval.resources == resource_set(entry)", "approval.resources >= resource_set(entry)"),
            ("(approval.origin, approval.uri) != (origin, entry.uri)", "approval.uri != entry.uri"),
            ("(approval.origin, approval.uri) != (origin, entry.uri)", "approval.origin != origin"),
            (
                "not approval.bound and bool(seen) and seen <= approval.resources",
                "not approval.bound and bool(seen)",
            ),
            ("bool(seen) and seen <= approval.resources", "seen <= approval.resources"),
            ("is_covered = approval.bound and", "is_covered ="),
            ("bound=not entry.is_dynamic,", "bound=True,"),
        ),
    ),
    Group(
        "signatures",
        "trust/signatures.py",
        "tests/trust/test_signatures.py tests/trust/test_keyless_signatures.py",
        (
            ("if bundle.hint and bundle.hint != hint:", "if False:"),
            ("if _is_signed_by(bundle, key):", "if True:"),
            ("if not _is_signed_by(bundle, allowed):", "if False:"),
            ("        if kind != PAYLOAD_TYPE:\n", "        if False:\n"),
            ("issuer=publisher.issuer or None", "issuer=None"),
            (
                "if ours.get(path) != theirs.get(path) and",
                "if path in ours and ours[path] != theirs.get(path) and",
            ),
            (
                "if ours.get(path) != theirs.get(path) and",
                "if path in theirs and ours.get(path) != theirs[path] and",
            ),
            ("not (path in _GIT_FILES and path not in theirs)", "path not in _GIT_FILES"),
        ),
    ),
    Group(
        "certificates",
        "trust/certificates.py",
        "tests/trust/test_signatures.py tests/trust/test_signature_timestamps.py",
        (
            ("if any(certificate not in used for certificate in others):", "if False:"),
            ("    if not _may_sign(leaf):\n        raise", "    if False:\n        raise"),
            ("return bool(stated) and all(stated)", "return all(stated)"),
            ("return bool(stated) and all(stated)", "return any(stated)"),
        ),
    ),
    Group(
        "oms",
        "trust/oms.py",
        "tests/trust/test_signatures.py",
        (
            ('if bundle["mediaType"] != BUNDLE_TYPE:', "if False:"),
            ('if envelope["payloadType"] != PAYLOAD_TYPE:', "if False:"),
            ('if made.get("keyid", "") not in ("", hint):', "if False:"),
            ("        if name in signed:\n", "        if False:\n"),
            ("if hasher.hexdigest() != whole:", "if False:"),
            ('if any(segment in ("", ".", "..") for segment in name.split("/")):', "if False:"),
            ("if len(digest) != 64 or digest.strip", "if digest.strip"),
            ("if len(data) > MAX_BUNDLE_BYTES:", "if False:"),
            ("if _depth(data) > _MAX_DEPTH:", "if False:"),
            ("if len(made) != len(pairs):", "if False:"),
            ("if unknown := sorted(value.keys() - required - optional):", "if False:"),
            ("if _encode(data) != value:", "if False:"),
            ("if len(rows) > _MAX_FILES:", "if False:"),
        ),
    ),
    Group(
        "signers",
        "trust/signers.py",
        "tests/trust/test_signers.py",
        (
            (
                "is_same = is_known_signer(after) and (fingerprint == now or renewed)",
                "is_same = fingerprint == now or renewed",
            ),
            ("(fingerprint == now or renewed)", "True"),
            ("renewed = name == other and fingerprint", "renewed = fingerprint"),
            ("is_same = fingerprint == now\n", "is_same = True\n"),
            ("return actual not in (NO_SIGNER, _BAD_SIGNER) and", "return"),
            ('pinned.rpartition(" ")[2] == actual.rpartition(" ")[2]', "True"),
        ),
    ),
    Group(
        "approver",
        "host/approvals/approver.py",
        "tests/host/test_publishers.py tests/host/test_approving.py",
        (
            ("if missing := missing_publisher(candidate):", "if False:"),
            ("if now != (before or NO_SIGNER):", "if False:"),
            (
                "        if once is None:\n            await self._note_signer(skill)",
                "        await self._note_signer(skill)",
            ),
            ("signer=self.approvals.signer(skill.origin, skill.uri),", ""),
            ("require=self.signatures.required(skill.origin),", ""),
            ("if digest == shown_digest(entry):", "if True:"),
        ),
    ),
    Group(
        "install-signers",
        "install/installer.py",
        "tests/install/test_signers.py",
        (
            ("or confirms_signer(skill.signer, actual):", "or True:"),
            ("        if refusal := self.upstream.refusal(stored):\n", "        if refusal := None:\n"),
            ("and not self.upstream.publishers_for(skill):", "and True:"),
            ("            if failure := self._untrusted(skill):\n", "            if failure := None:\n"),
            ("(failure := self._untrusted(skill)):", "(failure := None):"),
        ),
    ),
    Group(
        "proposal",
        "install/proposal.py",
        "tests/install/test_signers.py",
        (("and not signer_change(pinned.signer, candidate.signer)", ""),),
    ),
    Group(
        "upstream",
        "install/upstream.py",
        "tests/install/test_signers.py",
        (
            (
                'signed_by = candidate.signature.publisher if candidate.signature.is_signed else ""',
                "signed_by = candidate.signature.publisher",
            ),
            ("        if not missing:\n", "        if True:\n"),
            ("elif refusal := self.refusal(candidate):", "elif refusal := None:"),
        ),
    ),
    Group(
        "new-files",
        "files.py",
        "tests/install/test_installer.py tests/install/test_apply.py",
        ((" | os.O_EXCL", ""),),
    ),
    Group(
        "apply",
        "install/apply.py",
        "tests/install/test_installer.py tests/install/test_apply.py "
        "tests/install/test_interrupted.py::test_whenever_it_is_interrupted_a_folder_is_old_or_new_and_the_next_"
        "command_goes_on[kill-remove]",
        (
            (
                "            if len(data) != file.size or digest_of(data) != file.digest:\n",
                "            if False:\n",
            ),
            ("if not isinstance(there, Tree) or there.digest != skill.digest:", "if False:"),
            ("        if os.path.lexists(step.path):\n", "        if False:\n"),
            ("    if _same(there, step.found, old, step.path):\n", "    if True:\n"),
            ("            if name and name_issues(name):\n", "            if False:\n"),
            ("            if name and name_issues(name):\n", '            if "/" in name:\n'),
            ("        (staging / _OLD).rename(staging / _GONE)\n", ""),
            ("            if name and _has_the_only_copy(", "            if False and _has_the_only_copy("),
            ("        if _has_the_only_copy(staging, step.path):\n", "        if False:\n"),
            (
                "if entry.name.startswith(STAGING) and entry.is_dir(follow_symlinks=False)",
                "if entry.name.startswith(STAGING) and entry.is_dir()",
            ),
            (
                "            if path.is_symlink():\n                path.unlink()\n            elif",
                "            if",
            ),
            (
                "            raise SourceError(problem) from error\n        _remove(staging)\n",
                "            raise SourceError(problem) from error\n",
            ),
        ),
    ),
    Group(
        "disk",
        "install/disk.py",
        "tests/install/test_installer.py tests/install/test_apply.py",
        (
            ('    | getattr(os, "O_NOFOLLOW", 0)\n', ""),
            ("    if stat.S_ISLNK(status.st_mode):\n", "    if False:\n"),
            ("        if not stat.S_ISREG(os.fstat(descriptor).st_mode):\n", "        if False:\n"),
            ("if scope is Scope.PROJECT and not resolved.is_relative_to(root):", "if False:"),
            ("if entry.is_file(follow_symlinks=False) and (", "if entry.is_file() and ("),
            ("elif entry.is_dir(follow_symlinks=False):", "elif entry.is_dir():"),
            (
                "if not belongs_to_skill(entry.name) and not _holds(pinned, path):",
                "if not belongs_to_skill(entry.name):",
            ),
            ("return data if len(data) <= limit else None", "return data"),
        ),
    ),
    Group(
        "plan",
        "install/plan.py",
        "tests/install/test_plan.py",
        (
            ("return Act.REPLACE if forced or ours else Act.FOREIGN", "return Act.REPLACE"),
            ("return Act.FOREIGN  # Not even", "return Act.REPLACE  # Not even"),
            ("return Act.REPLACE if before.is_unchanged(there) else Act.EDITED", "return Act.REPLACE"),
            (
                "            if before is None:\n                return Act.FOREIGN\n",
                "            if before is None:\n                return Act.REPLACE\n",
            ),
            ("Act.REMOVE if before.link and leads_to == canonical else", "Act.REMOVE if before.link else"),
            (
                "return Act.REMOVE if before.is_unchanged(there) or forced else Act.EDITED",
                "return Act.REMOVE",
            ),
            ("            not self.strange\n            and len(self.files)", "            len(self.files)"),
            ("        if self.strange or not self.files:\n", "        if not self.files:\n"),
            ("one.digest == other.digest and one.path == other.path", "one.path == other.path"),
        ),
    ),
    Group(
        "lock-format",
        "install/lock_format.py",
        "tests/install/test_lock.py",
        (
            ("    if digest != actual:\n", "    if False:\n"),
            ("if version is True or version != LOCK_VERSION:", "if False:"),
            ("        if skill.name in skills:\n", "        if False:\n"),
            ("            if path[:end] in paths:\n", "            if False:\n"),
            ('    if "\\\\" in path:\n', "    if False:\n"),
            ("        if pair is None or pair[0] in skill:\n", "        if pair is None:\n"),
            (' + len("]\\n") != len(rest):', ' + len("]\\n") < 0:'),
            ("char if char.isprintable() else _unicode_escape(char)", "char"),
        ),
    ),
    Group(
        "install-state",
        "install/state.py",
        "tests/install/test_pure_parts.py",
        (
            ("        skill.name,\n        list(", "        list("),
            ("        list(skill.pin.identity),\n", ""),
            ('        skill.pin.get("url"),\n', ""),
            ("        skill.digest,\n", ""),
            ("        list(skill.powers.allowed_tools),\n", ""),
            ("        list(skill.powers.scripts),\n", ""),
            ("        [file.path for file in skill.files if file.executable],\n", ""),
            ("        skill.signer,\n    ]", "    ]"),
        ),
    ),
    Group(
        "version-store",
        "install/versions.py",
        "tests/install/test_installer.py tests/install/test_apply.py",
        (
            ("        if len(data) != file.size or digest_of(data) != file.digest:\n", "        if False:\n"),
            ("            if digest_of(data) != digest:\n", "            if False:\n"),
            ("if str(path) not in known and path.lstat().st_mtime < newest:", "if str(path) not in known:"),
        ),
    ),
    Group(
        "installer",
        "install/installer.py",
        "tests/install/test_installer.py tests/install/test_servers.py",
        (
            ("            if candidate.name not in grants:\n", "            if False:\n"),
            ("            elif missing:\n", "            elif False:\n"),
            ("if step.name not in unaccepted or not step.changes", "if True"),
        ),
    ),
    Group(
        "candidates",
        "install/candidates.py",
        "tests/install/test_installer.py tests/install/test_apply.py tests/install/test_servers.py",
        (
            ("if entry.is_symlink() and not real.is_relative_to(root):", "if False:"),
            ("    if expected_name and name != expected_name:\n", "    if False:\n"),
            ("if len(files) >= limits.files_per_skill or total > limits.bytes_per_skill:", "if False:"),
            ("        if seen > limits.directories_per_root:\n", "        if False:\n"),
        ),
    ),
    Group(
        "upstream-pinned",
        "install/upstream.py",
        "tests/install/test_installer.py tests/install/test_apply.py tests/cli/test_install.py",
        (
            (
                "                if digest != skill.digest:\n",
                "                if False:\n",
            ),
        ),
    ),
    Group(
        "install-sources",
        "install/sources.py",
        "tests/install/test_installer.py tests/install/test_apply.py tests/cli/test_install.py",
        (
            ("                if links:\n", "                if False:\n"),
            ("#{pin.get('commit')}:{common}", "#:{common}"),
        ),
    ),
    Group(
        "server-skills",
        "install/servers.py",
        "tests/install/test_servers.py",
        (
            ("                    if digest != skill.digest:\n", "                    if False:\n"),
            ("            elif config.approval is Policy.NEVER:\n", "            elif False:\n"),
            ("url=redact_url(url) if", "url=url if"),
        ),
    ),
    Group(
        "accepted",
        "install/workspace.py",
        "tests/install/test_servers.py",
        (("if one.name in there - bad - waiting)", "if True)"),),
    ),
    Group(
        "process",
        "sources/process.py",
        "tests/attacks/test_wire.py tests/host/test_robust.py",
        (
            ("        if len(line) > self._line_bytes:\n", "        if False:\n"),
            (
                "extend(shown(line.strip(), _KEPT_CHARS) for line in lines)",
                "extend(line.strip() for line in lines)",
            ),
        ),
    ),
    Group(
        "direct-requests",
        "host/http/direct.py",
        "tests/host/test_direct_requests.py tests/attacks/test_wire.py",
        (
            ('message.get("id") == identity or (', "True or ("),
            ("                self._on_message(_validated(message))\n", "                pass\n"),
        ),
    ),
    Group(
        "archive",
        "sources/archive.py",
        "tests/sources/test_archive.py",
        (
            ("    if len(data) > limits.archive_bytes:\n", "    if False:\n"),
            ("        if row.path in files:\n", "        if False:\n"),
            ("            if parent in files:\n", "            if False:\n"),
            ('any(segment in ("", ".", "..") for segment in segments)', "False"),
            ('        or "\\\\" in path\n', ""),
            ('        or (len(segments[0]) == 2 and segments[0][1] == ":")\n', ""),
            (
                'any(char < " " or char == "\\x7f" or "\\ud800" <= char <= "\\udfff" for char in path)',
                "False",
            ),
            (
                "            if not member.isreg() or member.issparse():\n",
                "            if member.issparse():\n",
            ),
            (
                "            if not member.isreg() or member.issparse():\n",
                "            if not member.isreg():\n",
            ),
            ("                budget.file()\n                continue\n", "                continue\n"),
            ("            budget.take(member.size)\n", ""),
            ("    if len(plain) > budget.tar_bytes:\n", "    if False:\n"),
            ("            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):\n", "            if False:\n"),
            ("        budget.take(len(chunk))\n", ""),
            ("safe_path(info.orig_filename)", "info.orig_filename"),
            ("safe_path(member.name)", "member.name"),
            ("        if self._files > self._limits.archive_files:\n", "        if False:\n"),
        ),
    ),
    Group(
        "git",
        "sources/git.py",
        "tests/sources/test_git.py",
        (
            ("env=git_environment(os.environ),", "env=None,"),
            ("    if scheme not in GIT_SCHEMES:\n", "    if False:\n"),
            ('"GIT_CONFIG_GLOBAL": os.devnull,', ""),
            ('    "protocol.allow=never",\n', ""),
            ('    "credential.helper=",\n', ""),
            ('"GIT_TERMINAL_PROMPT": "0",', ""),
            ("    if total > limits.repository_bytes:\n", "    if False:\n"),
            ("_size(self._repository) > self._limits.repository_fetch_bytes", "False"),
            ("wanted.append((safe_path(below), blob", "wanted.append((below, blob"),
        ),
    ),
    Group(
        "wellknown",
        "sources/wellknown.py",
        "tests/sources/test_wellknown.py",
        (
            ("    if actual != entry.digest:\n", "    if False:\n"),
            ("                        if len(body) > most:\n", "                        if False:\n"),
            ("    if not _is_as_safe(url, target):\n", "    if False:\n"),
            ("    if not is_safe:\n", "    if False:\n"),
            ('after.scheme in ("https", before.scheme)', "True"),
            ('and "@" not in after.netloc', ""),
            ("        if len(index.entries) > limits.site_skills:\n", "        if False:\n"),
            ("safe_path(str(file)) for file in files", "str(file) for file in files"),
        ),
    ),
    Group(
        "add-command",
        "cli/install.py",
        "tests/cli/test_install.py",
        (
            ("if digests.get(one.skill.source, one.skill.digest) != one.skill.digest", "if False"),
            ("        if yes or await ask_about(screen, question, candidates):\n", "        if True:\n"),
            (
                "        if not yes and not can_ask():\n",
                "        yes = yes or not can_ask()\n        if False:\n",
            ),
        ),
    ),
    Group(
        "sync-command",
        "cli/sync.py",
        "tests/cli/test_install.py",
        (
            (
                "    if yes:\n        return\n    if not can_ask():\n",
                "    if yes or not can_ask():\n        return\n    if not can_ask():\n",
            ),
            (
                'if not await ask_yes(screen, "Install exactly these, with the tools and scripts shown?"):',
                "if False:",
            ),
            ("    if not yes and not can_ask():\n", "    yes = yes or not can_ask()\n    if False:\n"),
        ),
    ),
    Group(
        "trust",
        "host/config/trust.py",
        "tests/cli/test_project_trust.py tests/host/test_project_trust.py tests/host/test_version_0_1.py",
        (
            ("or self._digest(file.path) == file.digest", "or self._digest(file.path) is not None"),
            ('return values["digest"] if values["path"] == str(path) else None', 'return values["digest"]'),
        ),
    ),
    Group(
        "project-trust",
        "cli/project_trust.py",
        "tests/cli/test_project_trust.py",
        (
            (
                "not before.needs_trust or is_trusted(before)",
                "not before.names_servers or is_trusted(before)",
            ),
            ("if not path.resolve().is_relative_to(root.resolve()):", "if False:"),
        ),
    ),
    Group(
        "trust-command",
        "cli/trust.py",
        "tests/cli/test_project_trust.py",
        (
            (
                "agreed = yes or not waiting or digest == project.digest",
                "agreed = yes or not waiting or digest is not None",
            ),
            (
                'return f"sha256:{hashlib.sha256(json.dumps([files, skills])',
                'return f"sha256:{hashlib.sha256(json.dumps([files])',
            ),
            (
                'return f"sha256:{hashlib.sha256(json.dumps([files, skills])',
                'return f"sha256:{hashlib.sha256(json.dumps([skills])',
            ),
        ),
    ),
    Group(
        "merge",
        "host/config/merge.py",
        "tests/host/test_host_config.py tests/cli/test_project_trust.py tests/host/test_config_text.py",
        (
            ("if directory.resolve().is_relative_to(root):", "if True:"),
            ("trusted=trusted or file is user,", "trusted=True,"),
            ("for name in project.publishers:", "for name in ():"),
        ),
    ),
    Group(
        "structure",
        "wire/structure.py",
        "tests/host/test_robust.py",
        (("    if values > most:\n        raise", "    if False:\n        raise"),),
    ),
    Group(
        "transports",
        "host/transports.py",
        "tests/test_text.py tests/host/test_connections.py tests/attacks/test_wire.py",
        (
            ("return shown(redact(text, self._secrets), _REASON_CHARS)", "return shown(text, _REASON_CHARS)"),
            ("return tuple(redact(line, self._secrets) for line in lines)", "return tuple(lines)"),
            ("said = redact(said[:_SAID_CHARS], self._secrets)", "said = said[:_SAID_CHARS]"),
        ),
    ),
    Group(
        "sdk",
        "host/sdk.py",
        "tests/attacks/test_wire.py tests/host/test_robust.py",
        (
            ("        if self._left < 0:\n", "        if False:\n"),
            (
                "            if not isinstance(message, Exception):\n                budget",
                "            if False:\n                budget",
            ),
        ),
    ),
    Group(
        "command-line",
        "sources/command_line.py",
        "tests/sources/test_command_line.py",
        (
            (
                "for entry in path.split(separator) if kind(entry).is_absolute())",
                "for entry in path.split(separator))",
            ),
        ),
    ),
    Group(
        "guards",
        "trust/guards.py",
        "tests/trust/test_guards.py",
        (
            ("not skill.grants.execute_code)", "False)"),
            ("patterns &= skill.granted_tools", "pass"),
            ("        if not self.grants.allowed_tools:\n", "        if False:\n"),
            ('if scheme is None or scheme == "file":', "if scheme is None:"),
            ('if scheme is None or scheme == "file":', 'if scheme == "file":'),
            ("if origin != target)", "if False)"),
            ("match[1].lower()", "match[1]"),
        ),
    ),
    Group(
        "fence",
        "trust/fence.py",
        "tests/trust/test_fence.py tests/attacks/test_text.py tests/attacks/test_weakened_lines.py",
        (
            ("hashlib.sha256(salt + content.encode", "hashlib.sha256(content.encode"),
            ("if boundary not in folded:", "if True:"),
            (
                "    inside, imitations = neutralize(cleaned.text)\n",
                "    inside, imitations = cleaned.text, 0\n",
            ),
            ("    cleaned = clean_text(content)\n", "    cleaned = type(clean_text(content))(content)\n"),
            ("escape_xml(clean_line(value).text)", "clean_line(value).text"),
            ("_IMITATION.finditer(text.translate(_FOLD))", "_IMITATION.finditer(text)"),
        ),
    ),
    Group(
        "paths",
        "trust/paths.py",
        "tests/trust/test_paths.py",
        (
            ("        if is_inside(uri, root):\n            yield uri", "        yield uri"),
            ("any(resource.uri == uri for resource in entry.resources):", "True:"),
            ("any(is_inside(resource.uri, uri) for resource in entry.resources):", "True:"),
        ),
    ),
    Group(
        "directory",
        "trust/directory.py",
        "tests/trust/test_directory.py",
        (
            (
                "direct = is_inside(uri, directory) and len(path_below(uri, directory)) == 1",
                "direct = is_inside(uri, root)",
            ),
            ("if not direct or not (directory == root or is_inside(directory, root)):", "if not direct:"),
            ("elif uri in listed and listed[uri].is_directory == child.is_directory:", "elif uri in listed:"),
        ),
    ),
    Group(
        "text",
        "text.py",
        "tests/trust/test_sanitize.py tests/test_text.py",
        (
            ('shown = _HIDDEN.sub("", _CSI.sub("", joined))', 'shown = _HIDDEN.sub("", joined)'),
            ('shown = _HIDDEN.sub("", _CSI.sub("", joined))', 'shown = _CSI.sub("", joined)'),
            ("        shown = _drop_idle_joiners(shown)\n", "        pass\n"),
            ('    host = rest[:end].rpartition("@")[2]\n', "    host = rest[:end]\n"),
            ('or "@" in bare:', "or False:"),
            ("if _is_random(segment) or", "if False or"),
            ('text = _USERINFO.sub(rf"\\1{_STARS}@", text)', "pass"),
            ('text = _SECRET_PAIR.sub(rf"\\1{_STARS}", text)', "pass"),
            (
                '.replace("<", "&lt;").replace(">", "&gt;")\n    return escaped',
                '.replace(">", "&gt;")\n    return escaped',
            ),
        ),
    ),
    Group(
        "responses",
        "wire/responses.py",
        "tests/wire tests/attacks/test_weakened_lines.py",
        (
            ("base64.b64decode(blob, validate=True)", "base64.b64decode(blob)"),
            ('item.get("uri") != (spelling or uri) and not _names(item.get("uri"), uri)', "False"),
        ),
    ),
    Group(
        "paging",
        "wire/paging.py",
        "tests/wire/test_paging.py",
        (
            ("if next_cursor in self._cursors:", "if False:"),
            ("if self.pages >= self._limits.pages:", "if False:"),
            ("if self.items > self._limits.entries_per_server:", "if False:"),
        ),
    ),
    Group(
        "cache",
        "host/cache.py",
        "tests/host/test_cache.py",
        (
            ("return data if digest_of(data) == digest else None", "return data"),
            ("if not (file.bound or approved) or file.origin.is_own:", "if file.origin.is_own:"),
            ("if not (file.bound or approved) or file.origin.is_own:", "if not (file.bound or approved):"),
            ("            self.directory.chmod(0o700)\n", ""),
        ),
    ),
    Group(
        "files",
        "sources/directory/files.py",
        "tests/sources tests/attacks/test_weakened_lines.py",
        (
            ('_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | _EXACT', "_NO_LINK: Final = _EXACT"),
            ("if not stat.S_ISREG(status.st_mode):", "if False:"),
            ("size == status.st_size and stamp != UNSETTLED", "stamp != UNSETTLED"),
            (
                "_STAMP.pack(status.st_mtime_ns, status.st_ctime_ns, status.st_ino)",
                "_STAMP.pack(status.st_mtime_ns, 0, 0)",
            ),
            ("stamp = stamp_of(status) if is_settled else UNSETTLED", "stamp = stamp_of(status)"),
        ),
    ),
    Group(
        "auth",
        "server/http/auth.py",
        "tests/server/test_http.py",
        (
            ("            if hmac.compare_digest(token, known):", "            if True:"),
            ("if hmac.compare_digest(token, known):", "if known.startswith(token):"),
            ('if scheme.lower() == b"bearer" else None', ""),
            ("if len(given) == 1 else", "if given else"),
            ("if not tokens or not all(tokens.values()):", "if not tokens:"),
        ),
    ),
    Group(
        "http",
        "host/http/client.py",
        "tests/attacks tests/host/test_connections.py tests/host/test_direct_requests.py",
        (
            ("secrets.token_hex(16)", '"0" * 32'),
            ("follow_redirects=False", "follow_redirects=True"),
            ("                if len(body) > self._limit:", "                if False:"),
            ("            if taken > self._limit:", "            if False:"),
            ('if response.headers.get("content-encoding", "identity") != "identity":', "if False:"),
            ("            check_structure(body)", "            pass"),
            ("            check_structure(event)", "            pass"),
        ),
    ),
    Group(
        "transport",
        "host/http/transport.py",
        "tests/attacks/test_wire.py tests/host/test_direct_requests.py",
        (
            ("allow_redirects=False", "allow_redirects=True"),
            ("cookie_jar=aiohttp.DummyCookieJar()", "cookie_jar=aiohttp.CookieJar(unsafe=True)"),
        ),
    ),
    Group(
        "login",
        "host/login/flow.py",
        "tests/host/test_login.py",
        (
            ("    if is_loopback(url) and not is_loopback(server):", "    if False:"),
            ('    if scheme != "https" and not', "    if False and not"),
            ("            if taken > _MOST_BYTES:", "            if False:"),
        ),
    ),
    Group(
        "callback",
        "host/login/callback.py",
        "tests/cli/test_login.py",
        (
            (
                "        if not self._state or not secrets.compare_digest(",
                "        if False and not secrets.compare_digest(",
            ),
        ),
    ),
    Group(
        "started",
        "sources/command_line.py",
        "tests/sources/test_command_line.py",
        (
            (""".replace("%", "%%cd:~,%")""", ""),
            (""".replace('"', '""')""", ""),
            (' or "@" not in value', ""),
            ("if kind(entry).is_absolute()", ""),
        ),
    ),
    Group(
        "importers",
        "host/importers/base.py",
        "tests/host/test_client_configs.py",
        (
            ("skills=one.skills and other.skills", "skills=one.skills"),
            ("if _fits(name, other.include)", ""),
            ("(*one.exclude, *other.exclude)", "one.exclude"),
            ("server.name in said.off or", "False or"),
        ),
    ),
    Group(
        "tools",
        "host/tools.py",
        "tests/attacks tests/host/test_tools.py",
        (
            (
                "return neutralize(clean_line(text, limit=_LONGEST).text)[0]",
                "return clean_line(text, limit=_LONGEST).text",
            ),
            ("return neutralize(clean_line(text, limit=_LONGEST).text)[0]", "return neutralize(text)[0]"),
        ),
    ),
    Group(
        "fastpath",
        "server/fastpath/answer.py",
        "tests/attacks/test_weakened_lines.py tests/server",
        (
            ("or b'\"id\"' in key", ""),
            ('or b"\\\\" in key', ""),
            ("cached.validator is None or cached.validator.is_fresh()", "True"),
            ("cached.catalog is library.current_catalog()", "True"),
        ),
    ),
    Group(
        "fastpath-parse",
        "server/fastpath/parse.py",
        "tests/attacks/test_weakened_lines.py tests/server",
        (
            ('if body[:1] != b"{" or body[-1:] != b"}":', 'if body[-1:] != b"}":'),
            ("not known.issuperset(params)", "False"),
        ),
    ),
    Group(
        "ui-access",
        "ui/access.py",
        "tests/ui/test_access.py",
        (
            ("self._links.pop(_digest(token), (0.0, None))", "self._links.get(_digest(token), (0.0, None))"),
            ("is_valid = end > self.clock()", "is_valid = end > 0"),
            ("        if not is_valid:\n            return None\n", ""),
            ("or self.clock() - found.used_at > SESSION_SECONDS", ""),
            ("return len(hosts) == 1 and hosts[0].lower() in self.hosts", "return len(hosts) == 1"),
            (
                "return len(origins) == 1 and origins[0].lower() in (",
                "return len(origins) < 2 or origins[0].lower() in (",
            ),
            (
                'return hmac.compare_digest(session.form_token.encode(), given.encode("utf-8", "replace"))',
                "return True",
            ),
            (
                "default-src 'none'; script-src 'nonce-{nonce}'",
                "default-src 'none'; script-src 'unsafe-inline'",
            ),
            ("frame-ancestors 'none'; ", ""),
        ),
    ),
    Group(
        "ui-app",
        "ui/app.py",
        "tests/ui/test_access.py tests/ui/test_gateway_page.py",
        (
            ("httponly=True, ", ""),
            ('samesite="strict"', 'samesite="lax"'),
            ("if not self._access.is_addressed(hosts):", "if False:"),
            ('if request.method == "POST" and not self._access.is_own_origin(', "if False and not bool("),
            ('if not is_form_token(session, form.get("form_token", "")):', "if False:"),
            ("            if not visit.is_allowed:", "            if False:"),
            ("if len(body) > _MOST_FORM_BYTES:", "if False:"),
        ),
    ),
    Group(
        "ui-actions",
        "ui/actions.py",
        "tests/ui/test_decisions.py tests/ui/test_gateway_page.py",
        (
            (
                'digest=visit.form.get("digest", ""),\n            grants',
                "digest=str(self._host.admin.review(skill).digest),\n            grants",
            ),
            (
                'digest=visit.form.get("digest", ""), server=label, how=f"declined',
                'digest=str(self._host.admin.review(skill).digest), server=label, how=f"declined',
            ),
            ('bool(visit.form.get("allow_tools"))', "True"),
            ('bool(visit.form.get("allow_code"))', "True"),
            (
                "caller=visit.caller,\n            keep_files=True",
                'caller="",\n            keep_files=True',
            ),
        ),
    ),
    Group(
        "ui-code",
        "ui/code.py",
        "tests/ui/test_text.py",
        (
            ("_mark(run) if is_hidden else escape(run)", "_mark(run) if is_hidden else run"),
            ("_mark(run) if is_hidden else escape(run)", "escape(run)"),
        ),
    ),
    Group(
        "ui-markdown",
        "ui/markdown.py",
        "tests/ui/test_text.py",
        (
            ("<code>{escape(token.content)}</code></pre>", "<code>{token.content}</code></pre>"),
            ('<code>{escape(token.content)}</code>")', '<code>{token.content}</code>")'),
            ("parts.append(str(escape(token.content)))", "parts.append(token.content)"),
            ('return path if path in self._files else ""', "return path"),
            ('safe_text(FRONTMATTER.sub("", text, count=1))', 'FRONTMATTER.sub("", text, count=1)'),
        ),
    ),
    Group(
        "ui-rendering",
        "ui/rendering.py",
        "tests/ui/test_decisions.py",
        (("autoescape=True", "autoescape=False"),),
    ),
    Group(
        "uris",
        "skill/uris.py",
        "tests/skill/test_uris.py",
        (
            ('return uri.startswith(root + "/")', "return uri.startswith(root)"),
            ('if segment in ("", ".", ".."):', 'if segment in ("", "."):'),
            ('if "/" in segment or "\\\\" in segment or "\\0" in segment:', 'if "/" in segment:'),
            ('if "?" in rest or "#" in rest:', "if False:"),
            ("if _BAD_PERCENT.search(raw):", "if False:"),
        ),
    ),
)
# They read source files or docstrings, and would fail on any change.
IGNORED = ("--ignore=tests/test_reference.py", "--ignore=tests/test_docs.py")


def mutants(only: set[str]) -> list[Mutant]:
    """Every mutation, or those of some groups."""
    unknown = only - {group.name for group in GROUPS}
    if unknown:
        sys.exit(f"there is no group {', '.join(sorted(unknown))}")
    return [
        Mutant(group, number)
        for group in GROUPS
        if not only or group.name in only
        for number in range(len(group.changes))
    ]


def stale() -> list[str]:
    """The mutations whose text is not in its file exactly once."""
    found: list[str] = []
    for mutant in mutants(set()):
        file = ROOT / "src/skillwire" / mutant.group.file
        count = file.read_text("utf-8").count(mutant.change[0]) if file.is_file() else 0
        if count != 1:
            found.append(f"{mutant.name}: {count} times in {mutant.group.file}: {mutant.change[0].strip()}")
    return found


def copy(target: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        elif source.exists():
            shutil.copy(source, target / name)
    return target


def is_killed(mutant: Mutant, folder: Path) -> bool:
    """Whether a test fails on the copy in `folder` with this change. The copy is put back afterwards."""
    file = folder / "src/skillwire" / mutant.group.file
    text = file.read_text("utf-8")
    file.write_text(text.replace(*mutant.change), "utf-8")
    try:
        done = subprocess.run(
            [*PYTEST, *IGNORED, *mutant.group.tests.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True  # It hangs: that counts as noticed.
    finally:
        file.write_text(text, "utf-8")
    if done.returncode not in (0, 1, 2):
        sys.exit(f"pytest ended with {done.returncode} for {mutant.name}: do its tests exist?")
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Change security lines one at a time; a test must notice each."
    )
    parser.add_argument("--only", default="", help="groups, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = mutants(set(filter(None, options.only.split(","))))
    if options.list:
        print(
            *(
                f"{mutant.name}: {mutant.change[0].strip()} -> {mutant.change[1].strip()}"
                for mutant in chosen
            ),
            sep="\n",
        )
        return
    if problems := stale():
        sys.exit(
            "\n".join(["These mutations no longer apply; bring tools/mutants.py up to date:", *problems])
        )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            folder = Path(place, str(number))
            folder.mkdir()
            folders.put(copy(folder))

        def run(mutant: Mutant) -> bool:
            folder = folders.get()
            try:
                killed = is_killed(mutant, folder)
            finally:
                folders.put(folder)
            print(
                f"{'killed  ' if killed else 'SURVIVED'} {mutant.name}: {mutant.change[0].strip()}",
                flush=True,
            )
            return killed

        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(run, chosen))
    survived = [mutant.name for mutant, killed in zip(chosen, results, strict=True) if not killed]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed in {time.monotonic() - started:.0f} s")
    if survived:
        sys.exit(f"Survived: {', '.join(survived)}")


if __name__ == "__main__":
    main()
