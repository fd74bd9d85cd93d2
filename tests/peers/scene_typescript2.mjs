// The official TypeScript client of both eras in a scene, in the modern one: scene_typescript2.mjs URL TOKEN MARKER STEPS REVISION.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { answer, headers, mode, play, tap, url } from "./scene.mjs";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.PEERS_MODULES + "/");
const { Client, StreamableHTTPClientTransport } = await import(
  pathToFileURL(require.resolve("@modelcontextprotocol/client")).href
);

const client = new Client(
  { name: "portcullis-tests", version: "1" },
  { capabilities: { elicitation: {}, sampling: {}, roots: {} }, versionNegotiation: { mode: { pin: mode } } },
);
for (const method of ["elicitation/create", "sampling/createMessage", "roots/list"])
  client.setRequestHandler(method, ({ params }) => answer(method, params));
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
tap(transport);
await play({
  call: (params, options) => client.callTool(params, options),
  // The level is said with each request.
  level: () => {},
  follow: (uri) => client.listen(uri ? { resourceSubscriptions: [uri] } : { toolsListChanged: true }),
  close: () => client.close(),
});
