// The official TypeScript client: lists everything and carries out a plan. client_typescript.mjs TARGET PLAN -> JSON on stdout.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { walk } from "./walk.mjs";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.PEERS_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { SSEClientTransport } = await load("client/sse.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const [target, plan] = process.argv.slice(2).map((text) => JSON.parse(text));
const client = new Client({ name: "portcullis-tests", version: "1" }, { capabilities: {} });
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : target.sse
  ? new SSEClientTransport(new URL(target.sse))
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: target.env, stderr: "ignore" });
await client.connect(transport);
await walk(client, transport, plan);
