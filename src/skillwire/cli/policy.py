"""`skillwire policy`: what the policies of this machine allow, and why."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import FormatError, PolicyRefused, SourceError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.host import SkillHost
    from skillwire.host.policies import LoadedPolicy
    from skillwire.skill.lint_report import Linted
    from skillwire.trust import PolicyLayer, Scan, Subject


def show(*, name: str | None, on: str | None, options: HostOptions, as_json: bool) -> None:
    """Every layer, with the lines that hold; or the decision about a skill or a source, rule by rule."""
    if name is not None:
        _show_decision(name, on, options, as_json=as_json)
    elif on is not None:
        raise UsageError("--on says where a skill comes from: write skillwire policy show NAME --on SERVER")
    else:
        _show_layers(options.policy_files().current(), as_json=as_json)


def _show_layers(loaded: LoadedPolicy, *, as_json: bool) -> None:
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.host.policies import MACHINE_FILE, policy_log

    if as_json:
        show_json(
            {
                "layers": [_layer_json(layer) for layer in loaded.policy.layers],
                "remarks": list(loaded.remarks),
                "log": str(policy_log()),
            }
        )
        return
    screen = Screen()
    if not loaded.policy.given:
        screen.line(
            f"No policy holds here: there is no {MACHINE_FILE}, none of yours and none of this project."
        )
        return
    for layer in loaded.policy.layers:
        mode = "report" if layer.reports_only else "enforce"
        screen.line((printable(layer.name), "bold"), f"  {layer.kind.value}, {printable(layer.place)}")
        rows = [("mode", mode), ("ask", layer.contact), *_rows(layer)]
        screen.pairs([(name, printable(value)) for name, value in rows])
    for remark in loaded.remarks:
        screen.wrapped(printable(remark), style="yellow")
    screen.line(f"Refusals are written to {printable(str(policy_log()))}")


def _rows(layer: PolicyLayer) -> list[tuple[str, str]]:
    """The lines of a layer, each with its key."""
    rows = [("refuses all", layer.problem), *((f"registry {name}", at) for name, at in layer.registries)]
    if layer.allow is not None:
        rows.append(("sources.allow", ", ".join(layer.allow.texts) or "nothing"))
    rows.append(("sources.deny", ", ".join(layer.deny.texts)))
    for one in layer.publishers:
        must = f", must sign {', '.join(one.require.texts)}" if one.require.texts else ""
        rows.append((f"publishers.{one.name}", f"{', '.join(sorted(one.signers))}{must}"))
    for key, rules in (("tools", layer.tools), ("scripts", layer.scripts)):
        for patterns, level in rules:
            rows.append(
                (f"permissions.{key}", f"{patterns.texts[0]}: {level.name.lower().replace('_', '-')}")
            )
    for one in layer.scanners:
        refuse = f", refuses by {one.refuse.word}" if one.refuse is not None else ""
        rows.append((f"scanners.{one.name}", f"{shlex.join(one.command)}{refuse}"))
    rows.append(("approvals.by", " or ".join(layer.by)))
    rows += [("revoked", f"{digest}: {reason}") for digest, reason in layer.revoked.items()]
    return rows


def _layer_json(layer: PolicyLayer) -> dict[str, object]:
    return {
        "layer": layer.kind.value,
        "place": layer.place,
        "name": layer.name,
        "contact": layer.contact,
        "mode": "report" if layer.reports_only else "enforce",
        "problem": layer.problem or None,
        "rules": [{"key": key, "value": value} for key, value in _rows(layer) if value],
    }


def _show_decision(name: str, on: str | None, options: HostOptions, *, as_json: bool) -> None:
    loaded = options.policy_files().current()
    if ":" in name and not name.startswith("skill://"):
        _show_steps(loaded, _source_subject(name), name, "", as_json=as_json)
        return

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        await host.signatures.check_all([skill])
        scans = await host.decide.scan(skill)
        candidate = host.decide.facts(skill)
        words = host.decide.status(skill).words
        _show_steps(loaded, candidate.subject, skill.handle, words, scans=scans, as_json=as_json)

    with_host(options, action, name=name, on=on)


def _source_subject(source: str, skill: str = "", digest: str = "", signer: str = "") -> Subject:
    """A skill of which only some facts are given."""
    from skillwire.skill import SKILL_FILE, SkillEntry, SkillResource, make_uri, parse_digest
    from skillwire.trust import UNSIGNED, SignatureState, SignatureVerdict, Subject, git_name, url_name

    place = git_name(source) if source.startswith("git+") else source
    place = url_name(source) if source.startswith(("https://", "http://")) else place
    path = skill.strip("/").split("/") if skill else ["any"]
    uri = make_uri([*path, SKILL_FILE])
    files = (SkillResource(uri, parse_digest(digest), 0),) if digest else ()
    entry = SkillEntry(uri=uri, frontmatter={"name": path[-1]}, resources=files)
    signature = SignatureVerdict(SignatureState.SIGNED, signer=signer) if signer else UNSIGNED
    return Subject(entry=entry, sources=(place,), signature=signature)


def _show_steps(
    loaded: LoadedPolicy,
    subject: Subject,
    what: str,
    state: str,
    *,
    scans: Sequence[Scan] = (),
    as_json: bool,
) -> None:
    from skillwire.cli.output import Screen, printable, scan_rows, show_json
    from skillwire.trust import judge_steps

    policy = loaded.policy
    layers = [(layer, judge_steps(layer, subject)) for layer in policy.layers]
    refusal = policy.refusal(subject)
    names = subject.names(layers[0][0]) if layers else list(subject.sources)
    if as_json:
        show_json(
            {
                "skill": what,
                "names": names,
                "allowed": refusal is None,
                "state": state or None,
                "message": refusal.message if refusal is not None else None,
                "scans": [scan.as_json() for scan in scans],
                "layers": [
                    {
                        "layer": layer.kind.value,
                        "place": layer.place,
                        "mode": "report" if layer.reports_only else "enforce",
                        "steps": [{"rule": rule, "refused": bool(why), "why": why} for rule, why in steps],
                    }
                    for layer, steps in layers
                ],
            }
        )
        return
    screen = Screen()
    screen.line((printable(what), "bold"), f"  {printable(', '.join(names))}")
    for layer, steps in layers:
        only = " (only reports)" if layer.reports_only else ""
        screen.line(f"  {layer.kind.value} {printable(layer.name)}, {printable(layer.place)}{only}")
        for rule, why in steps:
            screen.line(
                "    ",
                ("refuses" if why else "passes ", "red" if why else "green"),
                f"  {rule}  {printable(why)}",
            )
    screen.pairs(scan_rows(scans))
    if not layers:
        screen.line("  No policy holds here.")
    result = ("refused", "red") if refusal is not None else ("not refused by policy", "green")
    screen.line(result, f": {printable(refusal.message)}" if refusal is not None else "")
    if state:
        screen.line(f"Its state is: {printable(state)}")


def check(
    *, files: tuple[Path, ...], junit: Path | None, sarif: Path | None, options: HostOptions, as_json: bool
) -> None:
    """Print what the policy refuses of lock files and configurations."""
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.files import write_atomic
    from skillwire.skill.lint_report import as_junit, as_sarif

    checked = [one for file in files or (Path("skillwire.lock"),) for one in _checked(file, options)]
    tool = "skillwire policy check"
    for target, report in ((junit, as_junit), (sarif, as_sarif)):
        if target is not None:
            try:
                write_atomic(target, report(checked, tool).encode(), mode=0o644)
            except OSError as error:
                raise SourceError(f"{target} cannot be written: {error.strerror}") from None
    refused = [one for one in checked if one.issues]
    if as_json:
        rows = [
            {"name": one.skill, "file": issue.file, "rule": issue.rule, "message": issue.message}
            for one in refused
            for issue in one.issues
        ]
        show_json({"checked": len(checked), "refused": rows})
    else:
        screen = Screen()
        for one in refused:
            for issue in one.issues:
                screen.line(("refused  ", "red"), printable(issue.message))
        if not refused:
            screen.line(("OK ", "green"), f"{len(checked)} checked, and the policy refuses none.")
    if refused:
        raise PolicyRefused(f"the policy refuses {', '.join(str(one.skill) for one in refused)}")


def _checked(file: Path, options: HostOptions) -> list[Linted]:
    """The skills of a lock, or the servers of a configuration, each with its refusal."""
    from skillwire.host import load_config
    from skillwire.skill.lint_report import Linted
    from skillwire.trust import may_have

    if file.suffix == ".lock":
        from skillwire.files import read_regular, unreadable
        from skillwire.install import InstallRules, parse_lock
        from skillwire.limits import DEFAULT_LIMITS

        try:
            text = read_regular(file, DEFAULT_LIMITS.document_bytes).decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise SourceError(f"{file} cannot be read: {unreadable(error)}") from None
        rules = InstallRules(
            file.absolute().parent, options.settings().servers, policy_files=options.policy_files()
        )
        failures = [
            (skill.name, rules.locked_refusal(skill)) for skill in parse_lock(text, file=str(file)).skills
        ]
        return [
            Linted(name, () if one is None else (_issue("policy", file, str(one.error)),))
            for name, one in failures
        ]
    if file.suffix != ".toml":
        raise UsageError(f"{file}: give a skillwire.lock or a skillwire.toml")
    found: list[Linted] = []
    config, policy = load_config(file=file), options.policy_files().current().policy
    for label, server in config.servers.items():
        refusals = (may_have(layer, server.source_names(label)) for layer in policy.enforced)
        issues = tuple(
            _issue(one.rule, file, f"{label}: {one.message}") for one in refusals if one is not None
        )
        found.append(Linted(label, issues[:1]))
    return found


def _issue(rule: str, file: Path, message: str) -> Any:
    from skillwire.errors import Issue

    return Issue(rule=rule, file=str(file), message=message)


def test(*, file: Path, options: HostOptions, as_json: bool) -> int:
    """Compare answers of the policy with what a file expects."""
    from skillwire.cli.output import Screen, counted, printable, show_json

    loaded = options.policy_files().current()
    rows: list[dict[str, object]] = []
    for number, one in enumerate(_expectations(file), 1):
        signer = str(one.get("signed_by", ""))
        keys = [
            key
            for publisher in loaded.policy.publishers
            if publisher.name == signer
            for key in publisher.signers
        ]
        if signer and not keys:
            raise _bad(file, number, f"signed_by names {signer}, which is no publisher of the policy")
        subject = _source_subject(
            str(one["source"]), str(one.get("skill", "")), str(one.get("digest", "")), keys[0] if keys else ""
        )
        refusal = loaded.policy.refusal(subject, approvals=False)
        actual = {"allowed": refusal is None, "rule": refusal.rule if refusal is not None else ""}
        expected = {"allowed": one["allowed"], "rule": one.get("rule", actual["rule"])}
        rows.append({"number": number, "source": one["source"], "expected": expected, "actual": actual})
    failed = [row for row in rows if row["expected"] != row["actual"]]
    if as_json:
        show_json({"expectations": rows, "failed": len(failed)})
        return int(bool(failed))
    screen = Screen()
    for row in failed:
        said = cast("dict[str, Any]", row["actual"])
        words = "allowed" if said["allowed"] else f"refused by {said['rule']}"
        screen.line(("differs  ", "red"), f"{row['number']}. {printable(str(row['source']))} is {words}")
    kept = len(rows) - len(failed)
    screen.line(f"{counted(kept, 'expectation')} of {len(rows)} met.")
    return int(bool(failed))


def _expectations(file: Path) -> list[Mapping[str, object]]:
    from skillwire.documents import DocumentError, read_toml
    from skillwire.files import read_regular, unreadable
    from skillwire.limits import DEFAULT_LIMITS

    known = {"source", "skill", "digest", "signed_by", "allowed", "rule"}
    try:
        values = read_toml(read_regular(file, DEFAULT_LIMITS.document_bytes).decode("utf-8"), what=str(file))
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{file} cannot be read: {unreadable(error)}") from None
    except DocumentError as error:
        raise SourceError(f"{file} cannot be used: {error}") from None
    found = values.get("expect")
    if not isinstance(found, list) or not found or set(values) != {"expect"}:
        raise _bad(file, 0, "it has no [[expect]] tables, or something else")
    rows = cast("list[object]", found)
    for number, row in enumerate(rows, 1):
        one = cast("dict[str, object]", row) if isinstance(row, dict) else {}
        texts = [value for key, value in one.items() if key != "allowed"]
        if not isinstance(one.get("source"), str) or not isinstance(one.get("allowed"), bool):
            raise _bad(file, number, "it needs source, a text, and allowed, true or false")
        if set(one) - known or not all(isinstance(text, str) for text in texts):
            raise _bad(file, number, f"known are the keys {', '.join(sorted(known))}, with texts")
    return cast("list[Mapping[str, object]]", rows)


def _bad(file: Path, number: int, message: str) -> FormatError:
    where = f"expectation {number}: " if number else ""
    return FormatError.of(
        rule="policy-test", file=str(file), message=f"{where}{message}", fix="see docs/policy.md"
    )


def sign_policy(file: Path, key: EllipticCurvePrivateKey, *, as_json: bool) -> None:
    """Sign a policy that is valid for an organization."""
    from skillwire.cli.output import Screen, show_json
    from skillwire.files import read_regular, unreadable, write_atomic
    from skillwire.host import parse_policy
    from skillwire.host.policies import SIGNATURE_SUFFIX, SIGNED_POLICY
    from skillwire.limits import DEFAULT_LIMITS
    from skillwire.skill import digest_of
    from skillwire.trust import LayerKind, sign_files

    try:
        data = read_regular(file, DEFAULT_LIMITS.document_bytes)
        policy = parse_policy(data.decode("utf-8"), kind=LayerKind.ORGANIZATION, place=str(file))
        signature = sign_files(
            {SIGNED_POLICY: digest_of(data)},
            name=SIGNED_POLICY,
            key=key,
        )
        target = file.with_name(file.name + SIGNATURE_SUFFIX)
        write_atomic(target, signature, mode=0o644)
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{file} cannot be signed: {unreadable(error)}") from None
    if as_json:
        show_json({"file": str(file), "signature": str(target), "serial": policy.serial})
    else:
        Screen().line(("Signed ", "green"), f"{file} with serial {policy.serial}: {target}")
