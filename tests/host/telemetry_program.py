# pyright: basic, reportMissingImports=false
"""A program that uses skills with OpenTelemetry set up, and prints what its collectors were told."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from clients import call
from gateways import joined, make_gateway
from simulator import Simulator, opened
from skillwire.errors import SkillwireError
from skillwire.gateway import GatewayOptions
from skillwire.trust import shown_digest


@contextmanager
def collector(received: dict[str, bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if "gzip" in self.headers.get("content-encoding", ""):
                import gzip

                body = gzip.decompress(body)
            received[self.path] = received.get(self.path, b"") + body
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


async def use_skills(folder: Path) -> str:
    sim = Simulator()
    files = {"references/limits.md": b"At most 50 euros.\n"}
    sim.skill("refunds", body="# Refunds\nAsk for the receipt.\n", files=files)
    sim.skill("liar").swap_body("# Other\n")
    sim.skill("denied")
    own = folder / "secret-folder/own"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text("---\nname: own\ndescription: Mine alone.\n---\n# Own\n", "utf-8")

    async def ask(request: Any) -> bool:
        return request.skill.handle != "denied"

    options = {"ask": ask, "directories": [folder / "secret-folder"]}
    async with opened(folder / "state", shop=sim, host_options=options) as host:
        await host.load("refunds")
        await host.read("refunds", "references/limits.md")
        await host.load("own")
        for name in ("liar", "denied"):
            try:
                await host.load(name)
            except SkillwireError:
                continue
            raise AssertionError(f"{name} was loaded")
        return str(shown_digest((await host.find("refunds")).entry))


async def use_gateway(folder: Path) -> None:
    """One caller lists, and loads a skill that needs a yes and does not get it, then one that needs none."""
    sim = Simulator()
    sim.skill("refunds", body="# Refunds\nAsk for the receipt.\n")
    for approval in ("required", "listed"):
        gateway = make_gateway(folder / approval, options=GatewayOptions(approval=approval), shop=sim)
        async with gateway as running, joined(running, "2026-07-28") as client:
            await call(client, "skills/list")
            try:
                await call(client, "resources/read", uri="skill://shop/refunds/SKILL.md")
            except MCPError:
                continue


def main() -> None:
    received: dict[str, bytes] = {}
    with collector(received) as url:
        memory, reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(memory))
        tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
        trace.set_tracer_provider(tracers)
        sending = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"), 3_600_000)
        meters = MeterProvider([reader, sending])
        metrics.set_meter_provider(meters)
        digest = asyncio.run(use_skills(Path(sys.argv[1])))
        data = reader.get_metrics_data()
        finished = memory.get_finished_spans()
        asyncio.run(use_gateway(Path(sys.argv[1]) / "gateway"))
        passed_on = [span for span in memory.get_finished_spans() if ".gateway " in span.name]
        meters.shutdown()
        tracers.shutdown()
    spans = [span for span in finished if span.instrumentation_scope.name == "skillwire"]
    names = {span.context.span_id: span.name for span in spans}
    counts: dict[str, int] = {}
    for resource in data.resource_metrics:
        for scope in (one for one in resource.scope_metrics if one.scope.name == "skillwire"):
            for metric in scope.metrics:
                points = metric.data.data_points
                counts[metric.name] = sum(getattr(one, "count", None) or one.value for one in points)
    told = {
        "digest": digest,
        "spans": [
            {
                "name": span.name,
                "attributes": dict(span.attributes),
                "status": span.status.description,
                "parent": names.get(span.parent.span_id, "") if span.parent else "",
            }
            for span in spans
        ],
        "gateway": [[span.name, dict(span.attributes)] for span in passed_on],
        "metrics": counts,
        "otlp": {path: b"skillwire" in body for path, body in sorted(received.items(), reverse=True)},
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
