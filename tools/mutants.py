"""Change one security line at a time and see whether a test notices: `make mutants`.

Each mutation is a piece of source text and what takes its place. The tests named with its group must fail on
the changed copy; a mutation that survives, or whose text is no longer there, ends the run with an error. Your
checkout is not touched. `python -m tools.mutants --only cache,verify` runs a part, `--list` shows them.
"""

from __future__ import annotations

import argparse
import os
import shlex
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
COPIED += ("CONTRIBUTING.md", "requirements", "Makefile")
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
    "not peer",
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
        "labels",
        "evals/selection.py",
        "tests/evals/test_labels.py",
        (
            ("    question = clean_line(question).text\n", ""),
            ("    if len(labels) > limits.evaluated_questions:", "    if False:"),
            ("    if len(data) > limits.document_bytes:", "    if False:"),
            ("        expected = (skill,)  # The directory", "        pass  # The directory"),
        ),
    ),
    Group(
        "eval-run",
        "evals/behavior.py",
        "tests/evals/test_behavior.py",
        (
            ("        return is_allowed\n", "        return True\n"),
            ("<h1>{escape_xml(report['scenario'])}</h1>", "<h1>{report['scenario']}</h1>"),
            ("<pre>{escape_xml(report['prompt'])}</pre>", "<pre>{report['prompt']}</pre>"),
            ("<pre>{escape_xml(said)}</pre>", "<pre>{said}</pre>"),
            ("not met'}: {escape_xml(name)}</li>", "not met'}: {name}</li>"),
            ("{escape_xml(safe_line(name, limit=52))}", "{name}"),
            ('said = escape_xml(f"{name}, {arm} the skill: {share_words(one)}")', 'said = f"{name}, {arm}"'),
            ("_POLICY: Final = \"default-src 'none'", '_POLICY: Final = "default-src *'),
        ),
    ),
    Group(
        "eval-output",
        "cli/evals.py",
        "tests/cli/test_eval.py -k terminal",
        (
            (
                'for line in "\\n".join(lines).splitlines():\n        write(printable(line))',
                "for line in lines:\n        write(line)",
            ),
        ),
    ),
    Group(
        "usage",
        "host/storage.py",
        "tests/host/test_usage.py",
        (
            ("safe_line(skill.entry.name, limit=_NAME_CHARS)", "skill.entry.name"),
            ("safe_line(skill.uri, limit=_NAME_CHARS * 5)", "skill.uri"),
            (
                "                make_private(self.path)\n",
                "                self.path.parent.mkdir(exist_ok=True)\n                self.path.touch()\n",
            ),
            ("            database.execute(_FORGET, [self._most])\n", ""),
        ),
    ),
    Group(
        "selection-figures",
        "evals/selection.py",
        "tests/ui/test_figures.py",
        (("for key, label in labels[:_MOST_ASKED]:", "for key, label in labels:"),),
    ),
    Group(
        "selection-panel",
        "ui/templates/skill.html",
        "tests/ui/test_figures.py",
        (
            (
                "<strong>{{ name }}</strong>: {{ question }}",
                "<strong>{{ name }}</strong>: {{ question|safe }}",
            ),
        ),
    ),
    Group(
        "vectors",
        "host/semantic.py",
        "tests/host/test_semantic.py",  # In a copy of the checkout only those that need no package.
        (
            (
                "if missing := missing_package():\n                raise",
                'if missing := "":\n                raise',
            ),
        ),
    ),
    Group(
        "policy-patterns",
        "trust/origin.py",
        "tests/trust/test_policy.py",
        (
            ("if (plain is None or literal in plain)", 'if (literal in (plain or ""))'),
            ("return text.lower() if text.isascii() else None", "return text.lower()"),
            ('host = (parts.hostname or "").rstrip(".")', "host = parts.netloc"),
            ("posixpath.normpath(unquote(parts.path))", "parts.path"),
            ('name == base or name.startswith(f"{base}/")', "name.startswith(base)"),
        ),
    ),
    Group(
        "policy",
        "trust/policy.py",
        "tests/trust/test_policy.py",
        (
            (
                "it may have refused this.\n    if layer.problem:",
                "it may have refused this.\n    if False:",
            ),
            (
                "        if digest in revoked:\n            return digest",
                "        if False:\n            return digest",
            ),
            ('return whole if whole is not None and whole in revoked else ""', 'return ""'),
            ("        if pattern := layer.deny.named(names):\n", '        if pattern := "":\n'),
            ("not verdict.is_signed or verdict.signer not in one.signers", "not verdict.is_signed"),
            ("verdict is None or not verdict.is_signed or", "verdict is None or"),
            ("if one.signer in layer.signers_of(name)", "if name"),
            ("is not Permission.NEVER\n", "is not None\n"),
            ("replace(grants, execute_code=False)", "grants"),
            ("replace(grants, allowed_tools=False)", "grants"),
            ("if not layer.reports_only)", "if layer.reports_only)"),
            (
                "        if scan is None:\n            return Refusal(",
                "        if scan is None:\n            continue\n            return Refusal(",
            ),
            ("if scan.problem or scan.worst >= one.refuse:", "if scan.worst >= one.refuse:"),
            ("if scan.problem or scan.worst >= one.refuse:", "if scan.problem or scan.worst > one.refuse:"),
        ),
    ),
    Group(
        "policy-step",
        "trust/admission.py",
        "tests/trust/test_policy.py",
        (
            (
                "    if subject is not None and (refusal := skill.policy.refusal(subject, approvals=asks)):",
                "    if False:",
            ),
            (
                "        if subject is not None and (refusal := unsigned(skill.policy, subject)):",
                "        if False:",
            ),
            (
                "        if subject is not None and (refusal := unscanned(skill.policy, subject)):",
                "        if False:",
            ),
            ("if self.scans is not None or not self.policy.thresholds:", "if not self.policy.thresholds:"),
            ("        grants = skill.policy.limit(grants, subject)\n", ""),
            ("and not signer_change and not needs_person", "and not signer_change"),
        ),
    ),
    Group(
        "scans",
        "trust/scans.py",
        "tests/trust/test_scans.py",
        (
            ('if not invocation["executionSuccessful"]:', "if False:"),
            ('or document.get("version") != SARIF_VERSION:', "or False:"),
            ('not in ("fail", "open", "review"):', 'not in ("open", "review"):'),
            ("message=safe_line(_message(", "message=str(_message("),
            ("or configured or FindingLevel.WARNING.word", "or configured or FindingLevel.NONE.word"),
        ),
    ),
    Group(
        "scanners",
        "host/scanners.py",
        "tests/host/test_scanners.py",
        (
            ("            check_owner(Path(path))\n", "            pass\n"),
            ("    if result.ended:\n", "    if False:\n"),
            ("if result.exit_code not in _SUCCESS:", "if False:"),
            ("stored = None if _is_decisive(policy, one) else _read(", "stored = _read("),
            ("not (known.by_us or not _is_decisive(policy, scanner))", "False"),
            ("json.dumps([scanner.key, [", "json.dumps([0, ["),
            ("(path, file_stamp(Path(path))) for path in paths", "path for path in paths"),
            ('if tuple(document["key"]) != key:', "if False:"),
            ("if by_us and not scan.problem:", "if by_us:"),
        ),
    ),
    Group(
        "scanned-loads",
        "host/decide.py",
        "tests/host/test_scanners.py",
        (
            (
                "        await self._require("
                "admit(case.facts, Purpose.INSTALL), case.skill, loaded=report)\n",
                "",
            ),
            (
                "            await self.scans.scan(policy, case.entry, fetch, everything=report, "
                "limits=self.limits)\n",
                "",
            ),
            ("scans = await self.scans.scan(policy, entry, fetch, limits=self.limits)", "scans = ()"),
        ),
    ),
    Group(
        "signed-approvals",
        "consent/export.py",
        "tests/host/test_policies.py",
        (('    return {_SIGNED: digest_of(text.encode("ascii"))}', '    return {_SIGNED: digest_of(b"")}'),),
    ),
    Group(
        "policies",
        "host/policies.py",
        "tests/host/test_policies.py",
        (
            ("        if found.st_uid != _ADMINISTRATOR:", "        if False:"),
            ("found.st_mode & 0o022", "found.st_mode & 0o002"),
            ("(path, *path.parents, real, *real.parents)", "(path, *path.parents)"),
            (
                '    if not verdict.is_signed:\n        raise SourceError(f"it is not signed',
                '    if False:\n        raise SourceError(f"it is not signed',
            ),
            ("serial < before or (serial == before and data != last)", "serial < before"),
            ("serial < before or (serial == before and data != last)", "False"),
            ('== "over":\n            raise SourceError(\n', '== "never":\n            raise SourceError(\n'),
            (
                "        if not verdict.is_signed:\n            return []",
                "        if False:\n            return []",
            ),
            ("one.files == files and one.sources & names", "one.files == files"),
            ("one.files == files and one.sources & names", "one.sources & names"),
            ("        if not os.path.lexists(path):", "        if not os.path.exists(path):"),
        ),
    ),
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
            ("    if host.decide.can_ask:\n", "    if False:\n"),
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
        "registry/queries.py",
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
        "registry-publications",
        "registry/publications.py",
        "tests/registry/test_publishing.py tests/registry/test_store.py",
        (
            ("    if excess(len(rows), size, limits):\n", "    if False:\n"),
            ("    if issues := manifest_issues(row.path for row in rows):\n", "    if issues := ():\n"),
            ("    check_portable((row.path for row in rows), limits=limits)\n", ""),
        ),
    ),
    Group(
        "registry-publishing",
        "registry/publishing.py",
        "tests/registry/test_store.py",
        (
            (
                "c.namespace == draft.namespace, namespace_files.c.digest.in_(sorted(wanted))",
                "c.digest.in_(sorted(wanted))",
            ),
            ("            if sizes[file.digest] != file.size:\n", "            if False:\n"),
            ("        if not verdict.is_signed:\n", "        if False:\n"),
            (
                " not in (None, draft.set_digest):",
                " is draft:",
            ),
            ("if existing is not None and existing.yanked is not None:", "if False:"),
            ("    if quota is not None and used > quota:\n", "    if False:\n"),
        ),
    ),
    Group(
        "registry-revoked",
        "registry/queries.py",
        "tests/registry/test_revocations.py -k 'no_way or taken_back'",
        (
            (
                "    if revoked is not None:\n        raise revoked_error",
                "    if False:\n        raise revoked_error",
            ),
            ("                versions.c.revoked.is_(None),\n                ~sa", "                ~sa"),
        ),
    ),
    Group(
        "registry-revocations",
        "registry/revocations.py",
        "tests/registry/test_revocations.py -k 'signature or published or taken_back'",
        (
            ("            if serial != last + 1:\n", "            if False:\n"),
            ("        if expires <= now():\n", "        if False:\n"),
            ("[digest for digest in gone if digest not in removed]", "[]"),
            (
                "signer = require_signature(data, signature, [key], SIGNED_REVOCATIONS)",
                'signer = "nobody"',
            ),
            ("            self._mark(connection, affected)\n            details", "            details"),
        ),
    ),
    Group(
        "registry-revoked-publishing",
        "registry/publishing.py",
        "tests/registry/test_revocations.py -k published",
        (
            ("signature, revoked_digests(connection, digests))", "signature, {})"),
            ("            if row.revoked is not None:\n", "            if False:\n"),
        ),
    ),
    Group(
        "gateway-policy",
        "gateway/view.py",
        "tests/gateway/test_callers.py -k policy",
        (
            (
                "        if not offer.upstream.host.decide.is_permitted(offer.skill):\n",
                "        if False:\n",
            ),
        ),
    ),
    Group(
        "released",
        "host/live.py",
        "tests/host -k released",
        (
            (
                "            except PolicyRefused:\n                self._decide.held.release(skill.key)\n",
                "            except PolicyRefused:\n",
            ),
            ("await self._decide.require_usable(self._decide.open(skill))", "pass"),
        ),
    ),
    Group(
        "registry-access",
        "registry/access.py",
        "tests/registry/test_app.py tests/registry/test_commands.py",
        (
            ("tokens.c.hash.in_(part), tokens.c.revoked_at.is_(None)", "tokens.c.hash.in_(part)"),
            ("self.roles.get(ALL, 0)) >= role", "self.roles.get(ALL, 0)) >= Role.READ"),
            ("if subject == ANYONE and role not in (None, Role.READ):", "if False:"),
            ('if one.kind == "token" and one.key not in valid:', "if False:"),
            ("is_operator=roles.get(ALL, Role.READ) >= Role.ADMIN", "is_operator=True"),
        ),
    ),
    Group(
        "registry-accept",
        "registry/publishing.py",
        "tests/registry/test_decisions.py",
        (
            ("        if not caller.may(Role.READ, namespace):\n", "        if False:\n"),
            ("        if not caller.may(Role.PUBLISH, namespace):\n", "        if False:\n"),
            (", listed={file.digest for file in draft.files}, by=by)", ", by=by)"),
        ),
    ),
    Group(
        "registry-administration",
        "registry/administration.py",
        "tests/registry/test_decisions.py",
        (
            ("        if not caller.may(Role.ADMIN, where):\n", "        if False:\n"),
            ("        return namespace if isinstance(namespace, str) else ALL\n", "        return ALL\n"),
        ),
    ),
    Group(
        "registry-app",
        "registry/app.py",
        "tests/registry/test_app.py tests/server/test_frontend.py",
        (
            ("if not length.isdigit() or int(length) > most:", "if False:"),
            ("view_of=lambda caller, _headers: caller.view", "view_of=lambda caller, _headers: View()"),
            ("if any(not caller.view.has(namespace) for", "if any(False for"),
            ("if caller.credential or not slash or caller.view.has(namespace):", "if True:"),
            ("elif not caller.credential:", "elif False:"),
        ),
    ),
    Group(
        "registry-identity",
        "registry/app.py",
        "tests/registry/test_app.py tests/registry/test_identity.py",
        (
            (
                "return caller if caller is not None and caller.roles else NO_TOKEN",
                "return caller or NO_TOKEN",
            ),
            ("None if caller.expires < now else found[subject]", "found[subject]"),
            (
                "return None if caller is None or not caller.roles else _until",
                "return None if caller is None else _until",
            ),
            (
                "if known is None or known.caller is None or not known.caller.roles:",
                "if known is None or known.caller is None:",
            ),
            (
                "age > self._stale_seconds or (age > _FRESH_SECONDS and not self._is_waiting(known, now))",
                "False",
            ),
        ),
    ),
    Group(
        "oauth",
        "access/identity.py",
        "tests/registry/test_app.py tests/access/test_oauth.py",
        (
            ("                audience=self.settings.audience,\n", ""),
            ("                issuer=self.settings.issuer,\n", ""),
            ('"require": ["exp", "iss", "aud", "sub"]', '"require": []'),
            ("may_ask = now - self._asked > _ASK_AGAIN_SECONDS", "may_ask = True"),
        ),
    ),
    Group(
        "callers",
        "access/callers.py",
        "tests/gateway/test_callers.py tests/access",
        (
            ("not _HEADER.fullmatch(header) or header in _NEVER_PASSED", "not _HEADER.fullmatch(header)"),
            ('"authorization", "cookie", "host"', '"authorization", "host"'),
            (
                'return given[0].decode("latin-1").strip() if len(given) == 1 else ""',
                'return given[0].decode("latin-1").strip() if given else ""',
            ),
            ("        if digest in callers:\n", "        if False:\n"),
            (
                "        if not token:\n            raise ValueError",
                "        if False:\n            raise ValueError",
            ),
            ("        self._let_in = {}\n\n\nclass _File", "\n\nclass _File"),
            ("is_operator = words[2:] == [OPERATOR]", "is_operator = True"),
        ),
    ),
    Group(
        "identity",
        "access/identity.py",
        "tests/access tests/gateway/test_callers.py",
        (
            ("if self.labels is not None and parts.authority not in self.labels:", "if False:"),
            ("if self.include and not any(", "if False and not any("),
            ("return not any(fnmatchcase(path, pattern) for pattern in self.exclude)", "return True"),
            ("    if len(given) != 1:\n        return None", "    if not given:\n        return None"),
            ('if scheme.lower() != b"bearer" or', "if"),
            ("or not _TOKEN.fullmatch(token):", "or False:"),
            ("            self._failures.wait_seconds(address)  # Counts it.\n", ""),
            ("if seconds := self._failures.peek_seconds(address):", "if seconds := 0:"),
            (
                "        caller = self._recent(token)\n        if caller is not None:\n",
                "        caller = None\n        if caller is not None:\n",
            ),
        ),
    ),
    Group(
        "frontend",
        "server/http/frontend.py",
        "tests/server/test_frontend.py",
        (
            (
                "        if not self.hosts.match(scope):\n            await self._refuse_host",
                "        if False:\n            await self._refuse_host",
            ),
            ("if not self.hosts.match_origin(scope):", "if False:"),
            ("        if isinstance(caller, AccessRefusal):\n", "        if False:\n"),
            ("if seconds := self._rates.wait_seconds(name):", "if seconds := 0:"),
            ("elif not self._rates.begin(name):", "elif self._rates.begin(name) and False:"),
            ("            if view.is_revoked:  #", "            if False:  #"),
            ("        if caller.is_operator:\n", "        if True:\n"),
            ("path in HEALTH_PATHS and not is_detailed", "path in HEALTH_PATHS"),
            ("elif not self._frontend.hosts.match(scope, any_address=True):", "elif False:"),
            ("return len(hosts) == 1 and (", "return bool(hosts) and ("),
        ),
    ),
    Group(
        "pool",
        "server/http/pool.py",
        "tests/server/test_pool.py tests/server/test_frontend.py",
        (
            ("if caller is None or key_of(caller, request.headers) != view.key:", "if caller is None:"),
            (
                "if caller is None or key_of(caller, request.headers) != view.key:",
                "if caller is not None and key_of(caller, request.headers) != view.key:",
            ),
            ("if caller != owner and", "if False and"),
            (
                "idle = next((view for view in views if not view.open), None)",
                "idle = next(iter(views), None)",
            ),
            (
                "            if not view.open and view.last_used < before:",
                "            if view.last_used < before:",
            ),
            ("if len(own) >= self._limits.http_views_per_caller:", "if False:"),
            ("        if len(own) < self._most:\n            return\n", "        return\n"),
            (
                "            if not shared.holders and shared.idle_since < before:",
                "            if shared.idle_since < before:",
            ),
            (
                "        if view.open:\n            self._leaving.add(view)\n",
                "        if False:\n            self._leaving.add(view)\n",
            ),
        ),
    ),
    Group(
        "body",
        "server/http/asgi.py",
        "tests/server/test_frontend.py",
        (
            (
                "                if size > limits.http_body_bytes:\n                    await self._refuse",
                "                if False:\n                    await self._refuse",
            ),
            ("                    await asyncio.to_thread(check_json, body)", "                    pass"),
            ("if self._large >= limits.http_large_bodies:", "if False:"),
        ),
    ),
    Group(
        "sessions",
        "server/http/app.py",
        "tests/server/test_frontend.py",
        (('scope = {**scope, "user": _user(caller.name)}', "pass"),),
    ),
    Group(
        "gateway-http",
        "gateway/app.py",
        "tests/gateway/test_callers.py tests/server/test_frontend.py",
        (("return CallerView(caller, credentials_of(caller, headers))", "return CallerView(caller)"),),
    ),
    Group(
        "gateway-asking",
        "gateway/elicitation.py",
        "tests/gateway/test_elicitation.py",
        (
            ("if not says_yes(given):", "if False:"),
            ("if self.elicitor.now() - asked.at >= QUICKEST_ANSWER:", "if True:"),
            ("if name != caller.name or nonce in self._used", "if nonce in self._used"),
            ("if name != caller.name or nonce in self._used", "if name != caller.name"),
            ("if question is None or question.subject != asked.subject:", "if question is None:"),
        ),
    ),
    Group(
        "gateway-store-audit",
        "registry/audit.py",
        "tests/registry/test_gateway_audit.py -k 'chains or keeps_its_file'",
        (
            ("before = line.expected_hash(before)", "before = line.expected_hash(START)"),
            ("if try_lock(descriptor) and _is_at(path, descriptor):", "if try_lock(descriptor):"),
        ),
    ),
    Group(
        "gateway-audit",
        "gateway/records.py",
        "tests/attacks/test_modes.py",
        (
            (' | getattr(os, "O_NOFOLLOW", 0)', ""),
            ("os.open(path, flags, 0o600)", "os.open(path, flags, 0o666)"),
        ),
    ),
    Group(
        "folders",
        "files.py",
        "tests/test_files.py tests/attacks/test_modes.py",
        (
            ("            os.mkdir(one, mode)\n", "            os.mkdir(one)\n            mode = 0o777\n"),
            (
                "descriptor = os.open(temporary, CREATE, 0o600)",
                "descriptor = os.open(temporary, CREATE, 0o666)",
            ),
        ),
    ),
    Group(
        "registry-modes",
        "registry/store.py",
        "tests/attacks/test_modes.py",
        (("        _create_private(Path(str(self.url.database)))\n", ""),),
    ),
    Group(
        "project-links",
        "host/directories.py",
        "tests/host/test_places.py",
        (
            ('if label[:4] == "user" or not _leaves(path, project, home)', "if True"),
            ("(real.is_relative_to(around) and not _is_loop(path))", "real.is_relative_to(around)"),
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
        "gateway/view.py",
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
        "gateway-callers",
        "host/decide.py",
        "tests/gateway",
        (
            (
                "return self.consent.key(skill.origin, skill.uri, self.caller)",
                "return self.consent.key(skill.origin, skill.uri)",
            ),
            (
                "return replace(self, caller=caller, consent=consent or self.consent)",
                "return replace(self, caller=caller)",
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
            ("lock = self._lock.revision if self._lock else 0", "lock = 0"),
            ("        if not self.caller.allows(offer.root):\n            return False\n", ""),
            ("if self.caller.sees_label(label) and not is_hidden:", "if self.caller.sees_label(label):"),
            ("        decide.end_outdated(offer.skill)\n", ""),
            ("            return decision.step in _OF_PEOPLE\n", "            return True\n"),
            (
                "        if not self._lets(self.decider(offer).decision(offer.skill)):\n",
                "        if False:\n",
            ),
        ),
    ),
    Group(
        "search-text",
        "catalog/search.py",
        "tests/host/test_search.py tests/server/test_search.py",
        (
            ("if listed is None or digest_of(data) != listed[0]:", "if listed is None:"),
            ("        if len(data) > self._room:\n", "        if False:\n"),
        ),
    ),
    Group(
        "replay",
        "host/load.py",
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
            ("if not is_inside(uri, root) or not is_plain_path(", "if not is_plain_path("),
            (' or not is_plain_path("/".join(path_below(uri, root))):', ":"),
            ("if _known_digest(entry, uri) not in (None, digest):", "if False:"),
            ("if retrieved + len(data) > limits.bytes_per_skill:", "if len(data) > limits.bytes_per_skill:"),
            (
                "    if differences:\n        raise FrontmatterMismatch",
                "    if False:\n        raise FrontmatterMismatch",
            ),
            ("if files > limits.files_per_skill:", "if False:"),
            ("if size > limits.bytes_per_skill:", "if False:"),
            ("if over := excess(len(entry.resources), entry.total_size, limits):", "if over := None:"),
            ("if entry.name != expected:", "if False:"),
            ("if not file.startswith(below):", "if False:"),
            ("and not is_plain_path(unquote(path) if below else path):", "and False:"),
            ("    for conflict in file_conflicts(inside):\n", "    for conflict in file_conflicts([]):\n"),
            ("    if name not in inside:\n", "    if False:\n"),
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
            ("if skill.approval_mode is ApprovalMode.NEVER:", "if False:"),
            ("skill.seen) is Coverage.EQUAL:", "skill.seen) is not Coverage.NONE:"),
            ("is_settled = not skill.nested and not", "is_settled = not"),
            ("not skill.nested and not signer_change and", "not skill.nested and"),
            ("        if missing := _missing_publisher(skill):", "        if False:"),
            ("    if act is Purpose.OFFER:\n", "    if act is not Purpose.LIST:\n"),
            (
                "if verdict is None or not verdict.is_signed or",
                "if verdict is not None and not verdict.is_signed or",
            ),
            ("not verdict.is_signed or verdict.publisher != name:", "not verdict.is_signed:"),
            ("or not verdict.is_signed or verdict.publisher != name:", "or verdict.publisher != name:"),
            ("if skill.declined:", "if False:"),
            ("if skill.approval_mode is ApprovalMode.PINNED:", "if False:"),
            ("        return Allowed(NO_GRANTS, reported", "        return Allowed(ALL_GRANTS, reported"),
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
            ("and (path in ours or not is_version_control(path))", "and not is_version_control(path)"),
        ),
    ),
    Group(
        "certificates",
        "trust/publishers.py",
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
        "trust/publishers.py",
        "tests/trust/test_signatures.py",
        (
            ('if bundle["mediaType"] != BUNDLE_TYPE:', "if False:"),
            ('if envelope["payloadType"] != PAYLOAD_TYPE:', "if False:"),
            ('if made.get("keyid", "") not in ("", hint):', "if False:"),
            ("        if name in signed:\n", "        if False:\n"),
            ("if hasher.hexdigest() != whole:", "if False:"),
            ('if any(segment in ("", ".", "..") for segment in name.split("/")):', "if False:"),
            ("if len(digest) != 64 or digest.strip", "if digest.strip"),
            ("document_bytes=MAX_BUNDLE_BYTES, ", ""),
            ("document_depth=16", "document_depth=1_000_000"),
            ("strict=True, ", ""),
            ("if unknown := sorted(value.keys() - required - optional):", "if False:"),
            ("if _encode(data) != value:", "if False:"),
            ("if len(rows) > _MAX_FILES:", "if False:"),
        ),
    ),
    Group(
        "signers",
        "trust/signatures.py",
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
        "decide",
        "host/decide.py",
        "tests/host/test_publishers.py tests/host/test_approving.py tests/host/test_races.py "
        "tests/host/test_one_decision.py tests/host/test_scanners.py tests/host/test_index_skills.py "
        "tests/attacks/test_rights.py",
        (
            ("if now != (before or NO_SIGNER):", "if False:"),
            (
                "        if case.once is None:\n            await self._note_signer(case.skill, case.key)",
                "        await self._note_signer(case.skill, case.key)",
            ),
            ("if digest == shown_digest(entry):", "if True:"),
            (
                "            case.facts = facts = replace("
                "facts, signature=await self.signatures.check(case.skill))\n",
                "",
            ),
            (
                "            await self._require(admit(facts.before_scan, Purpose.INSTALL), case.skill)\n",
                "",
            ),
            ("            case.record = await self.consent.fetch(case.key)\n", "            pass\n"),
            (
                "if case.made_from != (now := self._now(case.skill)):",
                "if now := None:",
            ),
            (
                "        if case.facts.signature is None and self.needs_signature(case):\n",
                "        if False:\n",
            ),
            ("self.table.get(skill.key) or skill, entry=entry", "skill, entry=entry"),
            ("        if not is_yes:\n", "        if False:\n"),
            ("is_yes = answer is True or isinstance(answer, Grants | Once)", "is_yes = bool(answer)"),
            ("        self.end_outdated(case.skill, case.key)\n", ""),
            ("            self.end_outdated(skill)\n", ""),
            ("nested=is_nested(skill.uri, self.table.uris(skill.origin)),", "nested=False,"),
        ),
    ),
    Group(
        "rules",
        "host/rules.py",
        "tests/host tests/attacks",
        (
            ("            require=facts.require,\n", ""),
            ("            unavailable=facts.unavailable,\n", ""),
            ("            approval_mode=facts.approval_mode,\n", ""),
            ("            policy=loaded.policy,\n", ""),
            ("        self._facts.clear()  # A directory may be at another place by now.\n", ""),
            (
                "        before, self.switches = self.switches, switches\n        self._facts.clear()\n",
                "        before, self.switches = self.switches, switches\n",
            ),
        ),
    ),
    Group(
        "load",
        "host/load.py",
        "tests/host/test_races.py tests/host/test_one_decision.py tests/host/test_policies.py "
        "tests/host/test_index_skills.py tests/host/test_publishers.py tests/styles",
        (
            ("        await self.decide.examine(case)\n", ""),
            ("            await self.decide.ask(case, decision)\n", "            pass\n"),
            ("        self.style.check(verified, self.limits)\n", ""),
            (
                "            decision = await self.decide.decide(case, seen=seen)\n            if",
                "            if",
            ),
            (
                "            decision = await self.decide.confirm(case, seen=seen)\n",
                "            decision = Allowed()\n",
            ),
            (
                "            await self.decide.require_permitted("
                "HostSkill(key.origin, held.skill.entry, held.handle))\n",
                "",
            ),
            ("                    self.held.release(key)\n", ""),
        ),
    ),
    Group(
        "questions",
        "host/decide.py",
        "tests/host/test_index_skills.py tests/attacks/test_content.py",
        (
            (" and skill.uri in dict(approval.resources):", ":"),
            ("return in_hand.get(skill_file(entry, path)) or await", "return await"),
            (
                "        approval = approve(entry, skill.origin, grants=grants, seen=seen)\n        if",
                "        approval = approve(entry, skill.origin, grants=grants)\n        if",
            ),
        ),
    ),
    Group(
        "question-files",
        "host/files.py",
        "tests/host/test_index_skills.py",
        (
            ("if len(uris) >= self.limits.files_per_skill:", "if False:"),
            ("                except LimitExceeded:\n                    break\n", ""),
        ),
    ),
    Group(
        "question-of-a-read",
        "host/load.py",
        "tests/host/test_index_skills.py",
        (
            (
                "await self.decide.ask(case, decision, files=[file])",
                "await self.decide.ask(case, decision, files=[held.verified.file])",
            ),
            ("        case.once, seen = held.once, seen_set([file])\n", "        seen = seen_set([file])\n"),
        ),
    ),
    Group(
        "install-signers",
        "install/installer.py",
        "tests/install/test_signers.py tests/install/test_decisions.py",
        (
            ("or confirms_signer(skill.signer, actual):", "or True:"),
            ("if refusal := self._rules.refusal(candidate, before_scan=before_scan):", "if refusal := None:"),
            ("if failure := self._failure(skill, candidate, before_scan=", "if failure := None and bool("),
            (
                "if skill.name not in absent and (failure := await self._stored_failure(skill)):",
                "if failure := None:",
            ),
            ("if refusal := rules.refusal(candidate, before_scan=True):", "if refusal := None:"),
            ("{candidate.name: rules.refusal(candidate) for", "{candidate.name: None for"),
        ),
    ),
    Group(
        "installed-scans",
        "install/installer.py",
        "tests/cli/test_policy.py",
        (
            ("await self._rules.scan(stored) if self._rules.scans else stored)", "stored)"),
            ("        if is_scanned_first:\n            self._un", "        if False:\n            self._un"),
            (
                "        for skill in self._unscanned:\n"
                "            if failure := await self._stored_failure(skill):\n",
                "        for skill in self._unscanned:\n            if failure := None:\n",
            ),
        ),
    ),
    Group(
        "proposal",
        "install/candidates.py",
        "tests/install/test_signers.py",
        (("and not signer_change(pinned.signer, candidate.signer)", ""),),
    ),
    Group(
        "install-rules",
        "install/decide.py",
        "tests/install/test_signers.py",
        (
            ("require=tuple(self.required_publishers(skill))", "require=()"),
            ("self.required_publishers(skill) or self.policy", "self.policy"),
            ("        if not isinstance(decision, Denied):\n", "        if True:\n"),
            ("places |= {path, *map(str, Path(path).parents)}", "places |= {path}"),
            ("return {path, from_root, os.path.realpath(from_root)}", "return {path, from_root}"),
            (
                "return {path, from_root, os.path.realpath(from_root)}",
                "return {path, os.path.realpath(path)}",
            ),
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
        "install/state.py",
        "tests/install/test_installer.py tests/install/test_apply.py",
        (
            ('    | getattr(os, "O_NOFOLLOW", 0)\n', ""),
            ("    if stat.S_ISLNK(status.st_mode):\n", "    if False:\n"),
            ("        if not stat.S_ISREG(os.fstat(descriptor).st_mode):\n", "        if False:\n"),
            ("if scope is Scope.PROJECT and not resolved.is_relative_to(root):", "if False:"),
            ("if entry.is_file(follow_symlinks=False) and is_plain_path(path):", "if entry.is_file():"),
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
            ("return StepKind.REPLACE if forced or ours else StepKind.FOREIGN", "return StepKind.REPLACE"),
            ("return StepKind.FOREIGN  # Not even", "return StepKind.REPLACE  # Not even"),
            (
                "return StepKind.REPLACE if before.is_unchanged(there) else StepKind.EDITED",
                "return StepKind.REPLACE",
            ),
            (
                "            if before is None:\n                return StepKind.FOREIGN\n",
                "            if before is None:\n                return StepKind.REPLACE\n",
            ),
            (
                "StepKind.REMOVE if before.link and leads_to == canonical else",
                "StepKind.REMOVE if before.link else",
            ),
            (
                "return StepKind.REMOVE if before.is_unchanged(there) or forced else StepKind.EDITED",
                "return StepKind.REMOVE",
            ),
            ("            not self.strange\n            and len(self.files)", "            len(self.files)"),
            ("        if self.strange or not self.files:\n", "        if not self.files:\n"),
            ("one.digest == other.digest and one.path == other.path", "one.path == other.path"),
        ),
    ),
    Group(
        "lock",
        "install/lock.py",
        "tests/install/test_lock.py",
        (
            ("    if digest != actual:\n", "    if False:\n"),
            ("if version is True or version != LOCK_VERSION:", "if False:"),
            ("        if skill.name in skills:\n", "        if False:\n"),
            ("    if issues := manifest_issues(file.path for file in files):\n", "    if issues := ():\n"),
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
        "install/state.py",
        "tests/install/test_installer.py tests/install/test_apply.py",
        (
            ("        if len(data) != file.size or digest_of(data) != file.digest:\n", "        if False:\n"),
            ("if str(path) not in known and path.lstat().st_mtime < newest:", "if str(path) not in known:"),
        ),
    ),
    Group(
        "installer",
        "install/installer.py",
        "tests/install/test_installer.py tests/install/test_servers.py",
        (
            ("            if name not in grants:\n", "            if False:\n"),
            ("            elif missing:\n", "            elif False:\n"),
            ("if step.name not in left or not step.changes", "if True"),
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
        "install/fetcher.py",
        "tests/install/test_installer.py tests/install/test_apply.py tests/cli/test_install.py",
        (
            (
                "                if digest != skill.digest:\n",
                "                if False:\n",
            ),
            ("            if wanted == skill.digest:\n", "            if True:\n"),
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
        "install/sources.py",
        "tests/install/test_servers.py",
        (
            ("                    if digest != skill.digest:\n", "                    if False:\n"),
            ("            elif config.approval is ApprovalMode.NEVER:\n", "            elif False:\n"),
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
        "host/http_client.py",
        "tests/host/test_direct_requests.py tests/attacks/test_wire.py",
        (
            ('message.get("id") == identity or (', "True or ("),
            ("                self._on_message(_validated(message))\n", "                pass\n"),
        ),
    ),
    Group(
        "archive",
        "net/archive.py",
        "tests/net/test_archive.py",
        (
            ("    if len(data) > limits.archive_bytes:\n", "    if False:\n"),
            ("        check_files((file.path for file in files), folders)\n", ""),
            ("        if self._members > self.limits.archive_files:\n", "        if False:\n"),
            ("        if self._bytes > self.limits.unpacked_bytes:\n", "        if False:\n"),
            ("            if size > _MOST_HEADER:\n", "            if False:\n"),
            ("        _check_header(header)\n", ""),
            ('        if kind not in (b"0", b"\\0"):\n', "        if False:\n"),
            ("        budget.take(size)\n", ""),
            ("        if padding > _MOST_PADDING:\n", "        if False:\n"),
            (
                "        elif word not in _HARMLESS_PAX and not word.startswith(_IGNORED_PAX):",
                "        elif False:",
            ),
            ('    if unpacker.unused_data.strip(b"\\0") or data[at:].strip(b"\\0"):\n', "    if False:\n"),
            ("        if row.start < end:\n", "        if False:\n"),
            ("        if stat.S_IFMT(row.mode) not in (0, stat.S_IFREG):\n", "        if False:\n"),
            ("        budget.take(row.size)\n", ""),
            ("or zlib.crc32(content) != row.checksum", ""),
            ("    if place + _END.size + comment != len(data):\n", "    if False:\n"),
            ("    if flags & _ENCRYPTED:\n", "    if False:\n"),
            ("method not in (_STORED, _DEFLATED)", "method not in (_STORED, _DEFLATED, 12, 14)"),
            ("    if not flags & _UTF8 and not name.isascii():\n", "    if False:\n"),
            ("        if kind == _UNICODE_PATH and", "        if False and"),
            ("        or data[name_start : name_start + n] != row.name\n", ""),
            ("        if not name.isascii() and made_by >> 8 not in _UNIX:\n", "        if False:\n"),
            ("elif word in _NUMERIC_PAX and not", "elif False and not"),
            ("not in ((row.checksum, row.packed, row.size), *", "not in ((checksum, packed, size), *"),
        ),
    ),
    Group(
        "paths",
        "skill/entries.py",
        "tests/skill/test_paths.py tests/net/test_archive.py",
        (
            (r"(?:\A|/)\.{0,2}(?:/|\Z)|", ""),
            (r"[\\\x00-\x1f\x7f\ud800-\udfff]", r"[\x00-\x1f\x7f\ud800-\udfff]"),
            (r"[\\\x00-\x1f\x7f\ud800-\udfff]", r"[\\\x7f]"),
            ("if not is_plain_path(path) or _DRIVE.match(path):", "if not is_plain_path(path):"),
            ("        size > limits.path_bytes\n        or ", "        "),
            ('        or path.count("/") >= limits.directory_depth\n', ""),
            ("        if path in files:\n", "        if False:\n"),
            ("            if parent in files:\n", "            if False:\n"),
        ),
    ),
    Group(
        "portable",
        "skill/files.py",
        "tests/skill/test_paths.py",
        (("    if problems := portability_problems(listed):\n", "    if problems := ():\n"),),
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
            ("    if total > most or", "    if"),
            ("or len(files) > limits.repository_files:", ":"),
            ("if len(rows) > limits.repository_paths or", "if"),
            ('    "fetch.fsckObjects=true",\n', ""),
            ('    "http.followRedirects=false",\n', ""),
            ("_size(self._repository) > limit", "False"),
            ("            self._check_size()\n            if self.reason", "            if self.reason"),
            ("        self._check_size()  # It may have grown since the last look.\n", ""),
            ("_TreeFile(safe_path(name, limits=limits), blob", "_TreeFile(name, blob"),
        ),
    ),
    Group(
        "wellknown",
        "sources/wellknown.py",
        "tests/sources/test_wellknown.py",
        (
            ("    if actual != entry.digest:\n", "    if False:\n"),
            ("        check_target(index_url, target)\n", ""),
            ("    check_target(index, url)\n", ""),
            ("        if number >= limits.site_skills and not", "        if False and not"),
            ("    if excess(len(files), 0, limits):\n", "    if False:\n"),
            ("    if issues := manifest_issues(paths):\n", "    if issues := ():\n"),
            ("seconds=limits.call_seconds, is_pinned=True", "seconds=limits.call_seconds"),
            (
                "fetch(http, url, most=limits.document_bytes, seconds=limits.call_seconds)",
                "fetch(http, url, most=limits.document_bytes, seconds=limits.call_seconds, is_pinned=True)",
            ),
            ("safe_path(str(file)) for file in files", "str(file) for file in files"),
        ),
    ),
    Group(
        "addresses",
        "net/addresses.py",
        "tests/net/test_addresses.py",
        (
            ("        if address.ipv4_mapped is not None:\n", "        if False:\n"),
            ("        if address.sixtofour is not None:\n", "        if False:\n"),
            ("if any(address in network for network in _EMBEDDED) and", "if False and"),
            ("    if address.is_loopback or address.is_unspecified:\n", "    if address.is_loopback:\n"),
            ("    if address.is_link_local or address.is_multicast:\n", "    if False:\n"),
            ("Reachability.PUBLIC if address.is_global else Reachability.PRIVATE", "Reachability.PUBLIC"),
            (' or name.endswith(".localhost")', ""),
            (
                "    if reach_of(after.hostname) < reach_of",
                "    if False and reach_of(after.hostname) < reach_of",
            ),
            (' or "@" in after.netloc', ""),
            ("    if not is_pinned and not is_same_host(url, target):\n", "    if False:\n"),
            ("    check_target(url, target)\n    if not is_pinned", "    if not is_pinned"),
            ('        raise _refused(url, target, "which is less secure")\n', "        pass\n"),
            ("    return ports[0] == ports[1] or", "    return True or"),
            ('.removesuffix(".")', ""),
        ),
    ),
    Group(
        "net-failures",
        "net/failures.py",
        "tests/net/test_failures.py",
        (
            ('case ssl.SSLError() if "_ALERT_" in str(cause):', "case ssl.SSLError() if False:"),
            (
                'shown(redact_url(headers.get("location", "")), 200)',
                'shown(headers.get("location", ""), 200)',
            ),
            ("{shown(cause.verify_message, 80)}", "{cause.verify_message}"),
        ),
    ),
    Group(
        "net-http",
        "net/http.py",
        "tests/net/test_http.py",
        (
            ("        if len(body) > most:\n", "        if False:\n"),
            (
                '    if response.headers.get("content-encoding", "identity") != "identity":\n',
                "    if False:\n",
            ),
            ("is_pinned=is_pinned)\n", "is_pinned=True)\n"),
            ("        if reach < self._reach:\n", "        if False:\n"),
            ("            self._reach = reach\n", "            pass\n"),
            ("            if taken > self._most:\n", "            if False:\n"),
            ("is_same_host(self._site, url) and _is_private(url)", "_is_private(url)"),
            ("is_same_host(self._site, url) and _is_private(url)", "is_same_host(self._site, url)"),
            ("        if not _is_private(site):\n", "        if False:\n"),
        ),
    ),
    Group(
        "add-command",
        "cli/install.py",
        "tests/install/test_signers.py tests/cli/test_install.py",
        (
            ("    if not yes and not await ask_about(screen, question, candidates):\n", "    if False:\n"),
            ("    if not yes and not can_ask():\n", "    yes = yes or not can_ask()\n    if False:\n"),
            ("        if not is_accepted:\n", "        if False:\n"),
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
        "host/config/server.py",
        "tests/cli/test_project_trust.py tests/host/test_project_trust.py",
        (
            ("or self._digest(file.path) == file.digest", "or self._digest(file.path) is not None"),
            ('return values["digest"] if values["path"] == str(path) else None', 'return values["digest"]'),
        ),
    ),
    Group(
        "project-trust",
        "cli/trust.py",
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
        "project-trust-of-agents",
        "cli/trust.py",
        "tests/cli/test_person.py",
        (("    ours = ours and running_agent(os.environ) is None\n", ""),),
    ),
    Group(
        "trust-command",
        "cli/trust.py",
        "tests/cli/test_person.py tests/cli/test_project_trust.py",
        (
            ('    require_person("trusting a project")\n', ""),
            ("        if waiting:\n            await _ask(screen)\n", ""),
        ),
    ),
    Group(
        "sandbox-plan",
        "sandbox/plan.py",
        "tests/sandbox/test_plan.py",
        (
            ('"--unshare-user", "--disable-userns"', '"--unshare-user"'),
            ('"--die-with-parent", "--new-session"', '"--die-with-parent"'),
            ('"--cap-drop", "ALL", "--clearenv"', '"--cap-drop", "ALL"'),
            ('"--remount-ro", "/proc"', '"--dir", "/proc"'),
            ('"--remount-ro", "/"', '"--dir", "/"'),
            ('"--bind-fd" if grant.kind is GrantKind.WRITE else "--ro-bind-fd"', '"--bind-fd"'),
            ("    if path == home or _is_below(home, path):\n", "    if path == home:\n"),
            ("    if RUN not in texts:\n", "    if False:\n"),
            (" or _NO_VARIABLES.match(value)", ""),
        ),
    ),
    Group(
        "sandbox-seccomp",
        "sandbox/seccomp.py",
        "tests/sandbox/test_seccomp.py",
        (
            ("(_EQUAL, 1, 0, machine.audit)", "(_EQUAL, 1, 1, machine.audit)"),
            ("(_AT_LEAST, 0, 1, _X32)", "(_AT_LEAST, 1, 1, _X32)"),
            ("    ptrace process_vm_readv", "    process_vm_readv"),
            ("(_EQUAL, 1, 0, _TIOCSTI), ", ""),
            ("(_ANY_BIT, 0, 1, _NEW_NAMESPACES)", "(_ANY_BIT, 1, 1, _NEW_NAMESPACES)"),
            ("(_ANY_BIT, 0, 1, _SETUID_BITS)", "(_ANY_BIT, 1, 1, _SETUID_BITS)"),
            ('_MISSING: Final = ("clone3", ', "_MISSING: Final = ("),
        ),
    ),
    Group(
        "sandbox-proxy",
        "sandbox/proxy.py",
        "tests/sandbox/test_proxy.py",
        (
            ("checked is None or reach_of_address(checked) < least", "checked is None"),
            ("and port in ports", ""),
            (
                "name == granted_name.removesuffix",
                "name.endswith(granted_name) or name == granted_name.removesuffix",
            ),
            ('"@" in url.netloc or ', ""),
            ("if lengths or not length", "if not length"),
        ),
    ),
    Group(
        "host-scripts",
        "host/scripts.py",
        "tests/host/test_scripts.py",
        (
            ("        if answer is not True:\n", "        if False:\n"),
            ("not is_granted or newly_requested", "not is_granted and newly_requested"),
            (" | os.O_NOFOLLOW", ""),
        ),
    ),
    Group(
        "consent-record",
        "consent/record.py",
        "tests/consent/test_records.py tests/consent/test_store.py::TestSqliteConsent "
        "tests/consent/test_store.py::test_grants_are_ones_and_nothing_else",
        (
            (
                "self.last.decision == Decided.APPROVED and self._parsed is not None",
                "self._parsed is not None",
            ),
            ("return self._approval(origin) if self.is_approved else None", "return self._approval(origin)"),
            ("execute_code=self.execute_code == 1", "execute_code=bool(self.execute_code)"),
            (
                "bound=not entry.is_dynamic,\n            )\n        except",
                "bound=True,\n            )\n        except",
            ),
            ("declined is not None and declined == shown_digest(candidate.entry)", "declined is not None"),
            ("        signer=record.signer,\n    )\n\n\n# What", "    )\n\n\n# What"),
            ("    if not approval.resources:\n", "    if False:\n"),
            ("if record.last != before.last or record.last.decision", "if record.last.decision"),
            ("    return replace(by, signer=record.signer)", "    return by"),
        ),
    ),
    Group(
        "consent-export",
        "consent/export.py",
        "tests/consent/test_records.py",
        (
            ('execute_code=document["execute_code"] is True', 'execute_code=bool(document["execute_code"])'),
            (' or record.last.digest != document["digest"]:', ":"),
            ("entry.uri != key.uri or ", ""),
        ),
    ),
    Group(
        "consent-store",
        "consent/store.py",
        "tests/consent/test_records.py tests/consent/test_unwritten.py "
        "tests/consent/test_store.py::TestSqliteConsent",
        (
            ("return Key(self.identity(origin), uri, caller)", "return Key(self.identity(origin), uri)"),
            ("return self._identities.get(origin) or by_label(origin)", "return by_label(origin)"),
            ("{DIRECTORY if origin.is_local else _LABEL}", "{_LABEL}"),
            ("        elif self._records.pop(record.key, None) is None:\n", "        else:\n"),
            ("            and caller in (None, record.key.caller)\n", ""),
            ("resources=approval.resources | before.resources", "resources=before.resources"),
            (
                "        self._of_session.pop(key, None)\n"
                "        await self._withdraw(key, partial(transitions.declined",
                "        await self._withdraw(key, partial(transitions.declined",
            ),
            ("taken_back = self._of_session.pop(key, None) is not None", "taken_back = False"),
            ("        self._records[key] = after\n", ""),
            ("held.applied(stored) if held is not None else stored", "stored"),
            ("_after(held[key].applied, change) if key in held else change", "change"),
            ("            self._hold(before, change(before))\n", ""),
            (" if stored.last == self.before else stored", ""),
            (
                "        self._stamp, stored = await",
                "        self._stamp = self._backend.stamp()\n        _, stored = await",
            ),
            (
                "            del self._records[key]\n            self.revision += 1\n        for record",
                "            self.revision += 1\n        for record",
            ),
        ),
    ),
    Group(
        "consent-sqlite",
        "consent/sqlite.py",
        "tests/consent/test_store.py::TestSqliteConsent tests/consent/test_store.py "
        "--deselect=tests/consent/test_store.py::TestSqliteFaults::"
        "test_two_processes_write_at_once_and_lose_nothing",
        (
            ('    database.execute("BEGIN IMMEDIATE")', '    database.execute("BEGIN DEFERRED")'),
            ('            database.execute("ROLLBACK")', '            database.execute("COMMIT")'),
            ("before = next(iter(_select(database, key)), Record(key=key))", "before = Record(key=key)"),
            ("                if record.last != before.last:\n", "                if False:\n"),
            ("        if not stat.S_ISREG(mode):\n", "        if False:\n"),
            (
                "            if _fault(error, self._path) is not _Fault.DAMAGED:\n"
                "                raise self._failure(error) from None\n"
                "        self._set_aside",
                "            pass\n        self._set_aside",
            ),
            ("            if _size(self._beside(_JOURNAL)):\n", "            if False:\n"),
        ),
    ),
    Group(
        "consent-status",
        "consent/states.py",
        "tests/consent/test_records.py tests/consent/test_states.py tests/host/test_status.py",
        (
            ("and self.reason != UNCHECKED", ""),
            ("    Step.DECLINED: State.DECLINED,\n", "    Step.DECLINED: State.NOT_APPROVED,\n"),
            ("    Step.NEVER: State.REFUSED,\n", "    Step.NEVER: State.NOT_APPROVED,\n"),
            (
                "if decision.reason is Reason.CHANGED or signer_change:",
                "if decision.reason is Reason.CHANGED:",
            ),
            ("State.OWN if candidate.origin.is_own else state", "state"),
            ("if decision.step is Step.PUBLISHER and candidate.signature is None:", "if False:"),
        ),
    ),
    Group(
        "consent-question",
        "consent/question.py",
        "tests/consent/test_records.py",
        (
            ("covered = shown if entry.resources is DYNAMIC else entry.resources", "covered = shown"),
            ("        if any(file.uri == entry.uri for file in files)", "        if True"),
        ),
    ),
    Group(
        "consent-shared",
        "registry/store.py",
        "tests/registry/test_shared.py::TestSharedConsent",
        (
            ("            self._store.take_turn(connection)\n            for key", "            for key"),
            (
                "for name, value in key._asdict().items()))",
                "for name, value in list(key._asdict().items())[:2]))",
            ),
            ("before = next(iter(_select(connection, key)), Record(key=key))", "before = Record(key=key)"),
            ("                if record.last != before.last:\n", "                if False:\n"),
        ),
    ),
    Group(
        "person",
        "consent/asking.py",
        "tests/cli/test_person.py",
        (
            ("    if agent is not None:\n", "    if False:\n"),
            ("termios.tcflush(answers.fileno(), termios.TCIFLUSH)", "pass"),
            ("os.tcgetpgrp(reader.fileno()) != os.getpgrp()", "os.getpgrp() == 0"),
        ),
    ),
    Group(
        "running-agent",
        "clients/paths.py",
        "tests/test_clients.py",
        (
            ("        if any(_holds(sign, environment) for sign in client.inside):\n", "        if False:\n"),
            ('environment.get("AI_AGENT", "").strip() or named.lower()', "named.lower()"),
            ("not (fnmatchcase(value, pattern) if pattern else value)", "not value"),
        ),
    ),
    Group(
        "person-asks",
        "cli/host_options.py",
        "tests/cli/test_person.py",
        (("running_agent(os.environ) or person_terminal() is None", "person_terminal() is None"),),
    ),
    Group(
        "person-approves",
        "cli/approvals.py",
        "tests/cli/test_person.py tests/cli/test_approvals.py",
        (
            ('    require_person("approving a skill")\n', ""),
            ('    require_person("importing approvals")\n', ""),
            ("        if not agreed:\n", "        if False:\n"),
            ("    if not signer:\n", "    if False:\n"),
            (
                "load_approvers())\n    return verdict.publisher if verdict.is_signed else",
                "load_approvers())\n    return verdict.publisher if True else",
            ),
        ),
    ),
    Group(
        "registry-cache",
        "registry/source.py",
        "tests/registry/test_app.py -k stays_cached",
        (
            ("return self._source.last_change(self._skill) <= self._number", "return True"),
            (
                "validator = _FRESH if place.version is not None else _Unchanged(",
                "validator = _Unchanged(",
            ),
        ),
    ),
    Group(
        "person-page",
        "cli/gateway.py",
        "tests/cli/test_person.py",
        (('approves.\n    require_person("opening the review page", page=False)\n', "approves.\n"),),
    ),
    Group(
        "person-gateway-page",
        "cli/gateway.py",
        "tests/cli/test_person.py",
        (
            (
                "    if options.ui:\n        from skillwire.consent",
                "    if False:\n        from skillwire.consent",
            ),
        ),
    ),
    Group(
        "person-approval-mode",
        "cli/servers.py",
        "tests/cli/test_person.py",
        (
            ("    if entry.approval is ApprovalMode.ALWAYS:\n", "    if False:\n"),
            (
                "    if entry.approval is ApprovalMode.ALWAYS:\n",
                "    if approval_mode is ApprovalMode.ALWAYS:\n",
            ),
        ),
    ),
    Group(
        "person-installs",
        "cli/install_setup.py",
        "tests/cli/test_person.py",
        (
            ("        if not agents_may_install():\n", "        if False:\n"),
            ("    if grants:\n        require_person(", "    if False:\n        require_person("),
        ),
    ),
    Group(
        "person-adds",
        "cli/install.py",
        "tests/cli/test_person.py",
        (
            ("    asking = not yes and not by_agent\n", "    asking = not yes\n"),
            ("        if by_agent and candidate.skill.powers:\n", "        if False:\n"),
            ("    by_agent = installs_by_agent()\n", "    by_agent = False\n"),
            ('given["allow_tools"] or given["allow_code"] or given["allow_signer"]', "False"),
        ),
    ),
    Group(
        "person-syncs",
        "cli/sync.py",
        "tests/cli/test_person.py",
        (
            ("installs_by_agent(grants=any(skill.powers for skill in unaccepted))", "installs_by_agent()"),
            ("            installs_by_agent(grants=any(skill.powers for skill in unaccepted))\n", ""),
            ("    installs_by_agent(grants=any(one.skill.powers for one in candidates))\n", ""),
        ),
    ),
    Group(
        "user-alone",
        "host/config/config.py",
        "tests/cli/test_person.py",
        (("            if is_set:\n", "            if False:\n"),),
    ),
    Group(
        "approvers",
        "host/config/file.py",
        "tests/cli/test_person.py",
        (("if one.name in user.approvers", "if True"),),
    ),
    Group(
        "texts-for-models",
        "text.py",
        "tests/test_model_texts.py",
        (("_COMMAND.sub('', message)", "message"),),
    ),
    Group(
        "merge",
        "host/config/config.py",
        "tests/host/test_host_config.py tests/cli/test_project_trust.py tests/host/test_config_text.py",
        (
            ("if directory.resolve().is_relative_to(root):", "if True:"),
            ("trusted=trusted or file is user,", "trusted=True,"),
            ("for name in project.publishers:", "for name in ():"),
        ),
    ),
    Group(
        "documents",
        "documents.py",
        "tests/test_documents.py",
        (
            ("    if count_json_values(data, most) > most:\n        raise", "    if False:\n        raise"),
            ("    if len(data) > limits.document_bytes:", "    if False:"),
            ("            if depth > most:", "            if False:"),
            ("            if len(number) > limits.number_digits:", "            if False:"),
            ("    if len(table) != len(pairs):", "    if False:"),
            ('data.decode("utf-8" if strict else "utf-8-sig")', 'data.decode("utf-8-sig", "replace")'),
            ("    if key := _TOML_KEY.search(plain):", "    if key := None:"),
            ("    if _digits(plain, limits):", "    if False:"),
            ("values + _PER_TABLE * len(_TOML_TABLE.findall(plain)) > most", "False"),
            ("if len(self._open) >= self._limits.document_depth:", "if False:"),
            ("                self._count(size)", "                pass"),
            ("        if self._values > self._limits.document_values:", "        if False:"),
        ),
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
        "sources/process.py",
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
        "trust/approval.py",
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
            ("_imitation().finditer(text.translate(_FOLD))", "_imitation().finditer(text)"),
        ),
    ),
    Group(
        "paths",
        "trust/verify.py",
        "tests/trust/test_paths.py",
        (
            ("        if is_inside(uri, root):\n            yield uri", "        yield uri"),
            ("any(resource.uri == uri for resource in entry.resources):", "True:"),
            ("any(is_inside(resource.uri, uri) for resource in entry.resources):", "True:"),
        ),
    ),
    Group(
        "directory",
        "trust/verify.py",
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
        "manifests",
        "wire/v1.py",
        "tests/wire/test_v1.py",
        (
            (
                "        issues.extend(manifest_issues((file.uri for file in files), skill))\n",
                "        pass\n",
            ),
        ),
    ),
    Group(
        "responses",
        "wire/v1.py",
        "tests/wire tests/attacks/test_weakened_lines.py",
        (
            ("base64.b64decode(blob, validate=True)", "base64.b64decode(blob)"),
            ('item.get("uri") != (spelling or uri) and not _names(item.get("uri"), uri)', "False"),
        ),
    ),
    Group(
        "paging",
        "wire/v1.py",
        "tests/wire/test_paging.py",
        (
            ("if next_cursor in self._cursors:", "if False:"),
            ("if self.pages >= self._limits.pages:", "if False:"),
            ("if self.items > self._limits.entries_per_server:", "if False:"),
        ),
    ),
    Group(
        "cache",
        "host/storage.py",
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
        "http",
        "host/http_client.py",
        "tests/attacks tests/host/test_connections.py tests/host/test_direct_requests.py",
        (
            ("secrets.token_hex(16)", '"0" * 32'),
            ("follow_redirects=False", "follow_redirects=True"),
            ("                if len(body) > self._limit:", "                if False:"),
            ("            if taken > self._limit:", "            if False:"),
            ('if response.headers.get("content-encoding", "identity") != "identity":', "if False:"),
            ("            check_json(body)", "            pass"),
            ("            check_json(event)", "            pass"),
        ),
    ),
    Group(
        "login",
        "host/login_flow.py",
        "tests/host/test_login.py",
        (
            ("    check_target(server, url)\n", ""),
            ('        if methods and "S256" not in methods:', "        if False:"),
            ('    if not is_loopback(url) and urlsplit(url).scheme != "https":', "    if False:"),
            ("CappedBody(response.stream, _MOST_BYTES)", "response.stream"),
        ),
    ),
    Group(
        "callback",
        "host/login_flow.py",
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
        "sources/process.py",
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
        "host/model.py",
        "tests/attacks tests/host/test_tools.py",
        (
            (
                "return neutralize(clean_line(for_model(text), limit=_LONGEST).text)[0]",
                "return clean_line(text, limit=_LONGEST).text",
            ),
            (
                "return neutralize(clean_line(for_model(text), limit=_LONGEST).text)[0]",
                "return neutralize(text)[0]",
            ),
        ),
    ),
    Group(
        "fastpath",
        "server/fastpath.py",
        "tests/attacks/test_weakened_lines.py tests/server",
        (
            ("or b'\"id\"' in key", ""),
            ('or b"\\\\" in key', ""),
            ("cached.validator is None or cached.validator.is_fresh()", "True"),
            ("return catalog is library.current_catalog()", "return True"),
        ),
    ),
    Group(
        "fastpath-parse",
        "server/fastpath.py",
        "tests/attacks/test_weakened_lines.py tests/server",
        (
            ('if body[:1] != b"{" or body[-1:] != b"}":', 'if body[-1:] != b"}":'),
            ("not known.issuperset(params)", "False"),
        ),
    ),
    Group(
        "config-watch",
        "host/config/file.py",
        "tests/host/test_following.py",
        (("if self.project is None or is_trusted_now(self.project):", "if True:"),),
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
            (
                'if not hmac.compare_digest(found.root.encode(), root.encode("utf-8", "replace")):',
                "if False:",
            ),
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
            ("path=session.root)", 'path="/")'),
            ("if not self._access.is_addressed(hosts):", "if False:"),
            ('if request.method == "POST" and not self._access.is_own_origin(', "if False and not bool("),
            ('if not is_form_token(session, form.get("form_token", "")):', "if False:"),
            ("            if not visit.is_allowed:", "            if False:"),
            ("if len(body) > _MOST_FORM_BYTES:", "if False:"),
        ),
    ),
    Group(
        "ui-actions",
        "ui/app.py",
        "tests/ui/test_decisions.py tests/ui/test_gateway_page.py",
        (
            (
                "digest=digest,\n            grants",
                "digest=str(self._host.decide.review(skill).digest),\n            grants",
            ),
            (
                'digest=visit.form.get("digest", ""), server=label, how=f"declined',
                'digest=str(self._host.decide.review(skill).digest), server=label, how=f"declined',
            ),
            ("if item.review_reasons and not visit.session.has_opened(digest):", "if False:"),
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
            ("        if clock() > until:\n", "        if False:\n"),
            ('            yield text[at:start], ""\n', "            pass\n"),
            ("max(start + len(value), at), max(start, at)", "start + len(value), start"),
        ),
    ),
    Group(
        "ui-markdown",
        "ui/rendering.py",
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
        "skill/entries.py",
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
    # The programs that tests run, such as bubblewrap: without them, the tests of a mutation are skipped.
    (target / ".envs").symlink_to(ROOT / ".envs")
    return target


def is_killed(mutant: Mutant, folder: Path) -> bool:
    """Whether a test fails on the copy in `folder` with this change. The copy is put back afterwards."""
    file = folder / "src/skillwire" / mutant.group.file
    text = file.read_text("utf-8")
    file.write_text(text.replace(*mutant.change), "utf-8")
    try:
        done = subprocess.run(
            [*PYTEST, *IGNORED, *shlex.split(mutant.group.tests)],
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
