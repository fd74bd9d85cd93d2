// The official TypeScript client in a scene: scene_typescript.mjs URL TOKEN MARKER STEPS.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { answer, headers, play, tap, url } from "./scene.mjs";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.PEERS_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const types = await load("types.js");

const client = new Client(
  { name: "portcullis-tests", version: "1" },
  { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
);
for (const schema of [types.ElicitRequestSchema, types.CreateMessageRequestSchema, types.ListRootsRequestSchema])
  client.setRequestHandler(schema, ({ method, params }) => answer(method, params));
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
tap(transport);
await play({
  call: (params, options) => client.callTool(params, undefined, options),
  level: (level) => client.setLoggingLevel(level),
  follow: (uri) => uri && client.subscribeResource({ uri }),
  close: async () => {
    await transport.terminateSession();
    await client.close();
  },
});
