// The official TypeScript client of both eras: lists everything and carries out a plan. client_typescript2.mjs TARGET PLAN MODE.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

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

async function items(list, member) {
  const found = [];
  let cursor;
  do {
    let page;
    try {
      page = await list(cursor === undefined ? {} : { cursor });
    } catch (error) {
      if (error.code === -32601) return found;
      throw error;
    }
    found.push(...page[member].map((item) => JSON.stringify(item)));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

const call = {
  "tools/call": (params) => client.callTool(params),
  "resources/read": (params) => client.readResource(params),
  "prompts/get": (params) => client.getPrompt(params),
  "completion/complete": (params) => client.complete(params),
};

const lists = {
  tools: await items((page) => client.listTools(page), "tools"),
  resources: await items((page) => client.listResources(page), "resources"),
  resourceTemplates: await items((page) => client.listResourceTemplates(page), "resourceTemplates"),
  prompts: await items((page) => client.listPrompts(page), "prompts"),
};
const answers = [];
for (const [method, params] of plan) answers.push(JSON.stringify(await call[method](params)));
await transport.terminateSession?.();
await client.close();
console.log(JSON.stringify({ revision: transport.protocolVersion ?? null, lists, answers }));
