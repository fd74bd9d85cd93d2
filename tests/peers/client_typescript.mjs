// The official TypeScript client: lists everything and carries out a plan. client_typescript.mjs TARGET PLAN -> JSON on stdout.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.PEERS_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const [target, plan] = process.argv.slice(2).map((text) => JSON.parse(text));
const client = new Client({ name: "portcullis-tests", version: "1" }, { capabilities: {} });
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: target.env, stderr: "ignore" });
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
