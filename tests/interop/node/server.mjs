// A peer: serves a folder of skills with @olaservo/ext-skills, on both protocol eras.
//   node server.mjs FOLDER          over stdio
//   node server.mjs FOLDER --http   over HTTP; prints its URL to stderr when it listens
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { discoverSkills, registerSkillResources } from "@olaservo/ext-skills/server";

const [folder, transport] = process.argv.slice(2);
const skills = discoverSkills(folder);

function makeServer() {
  const server = new McpServer({ name: "ext-skills-peer", version: "1.0.0" }, { capabilities: { resources: {} } });
  registerSkillResources(server, skills, folder, { template: true, directoryRead: true, ttlMs: 60_000, cacheScope: "public" });
  return server;
}

function toRequest(incoming) {
  const hasBody = incoming.method !== "GET" && incoming.method !== "HEAD" && incoming.method !== "DELETE";
  return new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
    ...(hasBody ? { body: Readable.toWeb(incoming), duplex: "half" } : {}),
  });
}

if (transport === "--http") {
  const handler = createMcpHandler(makeServer);
  const http = createServer(async (incoming, outgoing) => {
    const response = await handler.fetch(toRequest(incoming));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body) Readable.fromWeb(response.body).pipe(outgoing);
    else outgoing.end();
  });
  http.listen(0, "127.0.0.1", () => console.error(`Serving ${skills.size} skills at http://127.0.0.1:${http.address().port}/mcp`));
} else {
  serveStdio(makeServer);
}
