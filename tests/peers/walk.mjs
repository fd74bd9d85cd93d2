// What both generations of the official TypeScript client are asked to do: list everything, carry out a plan, print it as JSON.

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

export async function walk(client, transport, plan) {
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
}
