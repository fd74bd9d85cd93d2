// The official TypeScript client of both eras: lists everything and carries out a plan. client_typescript2.mjs TARGET PLAN MODE.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { walk } from "./walk.mjs";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.PEERS_MODULES + "/");
const { Client, StreamableHTTPClientTransport } = await import(
  pathToFileURL(require.resolve("@modelcontextprotocol/client")).href
);

const [target, plan] = process.argv.slice(2, 4).map((text) => JSON.parse(text));
// "auto", or a revision that the client must speak.
const mode = process.argv[4] === "auto" ? "auto" : { pin: process.argv[4] };
const client = new Client(
  { name: "portcullis-tests", version: "1" },
  { capabilities: {}, versionNegotiation: { mode } },
);
const transport = new StreamableHTTPClientTransport(new URL(target.url));
await client.connect(transport);
await walk(client, transport, plan);
