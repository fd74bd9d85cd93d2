// The official TypeScript client of both eras: uses everything the server shows, as a scenario of the suite asks. client.mjs URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are installed beside the build, not beside this file.
const require = createRequire(process.env.CONFORMANCE_MODULES + "/");
const { Client, StreamableHTTPClientTransport } = await import(
  pathToFileURL(require.resolve("@modelcontextprotocol/client")).href
);

const revision = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const mode = revision < "2026-07-28" ? "legacy" : { pin: revision };
const client = new Client(
  { name: "portcullis-conformance", version: "1" },
  {
    capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
    versionNegotiation: { mode },
  },
);
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: {} }));
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);

// A server that lacks a list, or refuses one request, is not what is tested here.
async function attempt(asked) {
  try {
    return await asked();
  } catch (error) {
    console.error(String(error));
    return {};
  }
}

// Without the prefix that a gateway may put before a name.
const native = (name) => name.replace(/^fixture__/, "");
const samples = { string: "text", integer: 2, number: 2, boolean: true, object: {}, array: [], null: null };

function argumentsOf(tool) {
  const schema = tool.inputSchema;
  const needed = schema.required?.length ? schema.required : Object.keys(schema.properties ?? {});
  return Object.fromEntries(needed.map((name) => [name, samples[schema.properties?.[name]?.type] ?? "text"]));
}

const { tools = [] } = await attempt(() => client.listTools());
const focal = tools.find((tool) => native(tool.name) === "json_schema_2020_12_tool");
for (const tool of tools) {
  const asked = (context.toolCalls ?? []).filter((call) => call.name === native(tool.name));
  const echo = focal && native(tool.name) === "json_schema_echo" && { schema: focal.inputSchema };
  for (const { arguments: given } of asked.length ? asked : [{ arguments: echo || argumentsOf(tool) }])
    await attempt(() => client.callTool({ name: tool.name, arguments: given }));
}
const { resources = [] } = await attempt(() => client.listResources());
for (const { uri } of resources) await attempt(() => client.readResource({ uri }));
const { prompts = [] } = await attempt(() => client.listPrompts());
for (const { name } of prompts) await attempt(() => client.getPrompt({ name }));
await attempt(() => transport.terminateSession?.());
await client.close();
