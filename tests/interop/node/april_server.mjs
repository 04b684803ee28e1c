// A server of the April draft on the TypeScript SDK: it declares the extension and has no skills/list.
//   node april_server.mjs DATA [--declare extensions|experimental] [--index KIND] [--http]
// DATA is a JSON file with the skills (april_skills.py writes it). The tool `edit` changes a skill and the index.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const [file, ...options] = process.argv.slice(2);
const data = JSON.parse(readFileSync(file, "utf8"));
const option = (name, fallback) => (options.includes(name) ? options[options.indexOf(name) + 1] : fallback);
const EXTENSION = "io.modelcontextprotocol/skills";
const INDEX = "skill://index.json";
const TEMPLATE = "skill://docs/{product}/SKILL.md";

const listed = { ...data.resources, [INDEX]: ["application/json", data.indexes[option("--index", "full")]] };
const servers = new Set();

function makeServer() {
  const capabilities = {
    resources: { subscribe: true, listChanged: true },
    completions: {},
    tools: {},
    [option("--declare", "extensions")]: { [EXTENSION]: {} },
  };
  const { server } = new McpServer({ name: "april-ts", version: "0.4.0" }, { capabilities });
  const subscribed = new Set();
  server.setRequestHandler("resources/list", () => ({
    resources: Object.entries(listed).map(([uri, [mimeType]]) => ({ uri, name: uri.split("/").pop(), mimeType })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: TEMPLATE, name: "docs", mimeType: "text/markdown" }],
  }));
  server.setRequestHandler("resources/read", ({ params: { uri } }) => {
    const found = listed[uri] ?? data.unlisted[uri];
    if (!found) throw Object.assign(new Error(`No resource at ${uri}`), { code: -32602, data: { uri } });
    return { contents: [{ uri, mimeType: found[0], text: found[1] }] };
  });
  server.setRequestHandler("completion/complete", ({ params: { ref, argument } }) => {
    const fits = ref.uri === TEMPLATE && argument.name === "product";
    return { completion: { values: fits ? data.products.filter((name) => name.startsWith(argument.value)) : [] } };
  });
  server.setRequestHandler("resources/subscribe", ({ params: { uri } }) => (subscribed.add(uri), {}));
  server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => (subscribed.delete(uri), {}));
  server.setRequestHandler("tools/list", () => ({ tools: [{ name: "edit", inputSchema: { type: "object" } }] }));
  server.setRequestHandler("tools/call", async () => {
    for (const uri of ["skill://refunds/SKILL.md", INDEX]) {
      listed[uri] = [listed[uri][0], listed[uri][1].replaceAll("money back", "money back now")];
      if (subscribed.has(uri)) await server.sendResourceUpdated({ uri });
    }
    return { content: [{ type: "text", text: "edited" }] };
  });
  servers.add(server);
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

if (options.includes("--http")) {
  const handler = createMcpHandler(makeServer);
  const http = createServer(async (incoming, outgoing) => {
    const response = await handler.fetch(toRequest(incoming));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body) Readable.fromWeb(response.body).pipe(outgoing);
    else outgoing.end();
  });
  http.listen(0, "127.0.0.1", () => console.error(`Serving at http://127.0.0.1:${http.address().port}/mcp`));
} else {
  serveStdio(makeServer);
}
