// What a scene has both generations of the official TypeScript client do. Whatever comes in is kept, and told as JSON in the end.
import { createInterface } from "node:readline";

export const [url, token, marker, steps, mode] = process.argv.slice(2);
export const heard = { answers: [], messages: [] };
const said = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// Goes on when the other client has come so far, too; and what both began is where it should be.
async function meet(about = "") {
  console.log(`meet ${about}`);
  await said.next();
}

export const headers = { authorization: `Bearer ${token}` };

// Keeps every message that a transport brings.
export function tap(transport) {
  const pass = transport.onmessage;
  transport.onmessage = (message, extra) => {
    heard.messages.push(message);
    pass(message, extra);
  };
}

const fields = { boolean: () => true, number: () => 1, integer: () => 1, array: () => [], string: (field) => field.enum?.[0] ?? marker };

// What a person or a model says: always the marker of this client. Both clients are asked before either answers, but for
// roots: a server may ask for those when it likes.
export async function answer(method, params) {
  if (method === "roots/list") return { roots: [{ uri: `file:///${marker}` }] };
  await meet();
  if (method === "sampling/createMessage")
    return { model: marker, role: "assistant", content: { type: "text", text: marker } };
  const properties = Object.entries(params.requestedSchema?.properties ?? {});
  return { action: "accept", content: Object.fromEntries(properties.map(([name, field]) => [name, fields[field.type](field)])) };
}

async function awaited(method, count) {
  while (heard.messages.filter((message) => message.method === method).length < count)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

async function attempt(asked) {
  try {
    heard.answers.push(await asked());
  } catch (error) {
    heard.answers.push({ failed: error.code ?? error.name, message: String(error.message) });
  }
}

// `peer` is what differs between the generations: call, level, follow, close.
export async function play(peer) {
  for (const step of JSON.parse(steps)) {
    const { name, arguments: given, meta } = step;
    const params = { name, arguments: given, ...(meta && { _meta: meta }) };
    if (step.do === "call") await attempt(() => peer.call(params, step.progress ? { onprogress: () => {} } : {}));
    else if (step.do === "cancel") {
      const stop = new AbortController();
      const running = attempt(() => peer.call(params, { signal: stop.signal }));
      await meet(name);
      stop.abort("no longer wanted");
      await running;
    } else if (step.do === "level") await peer.level(step.level);
    else if (step.do === "follow") await peer.follow(step.uri);
    else if (step.do === "await") await awaited(step.method, step.count);
    else await meet();
  }
  await peer.close();
  console.log(JSON.stringify(heard));
  process.exit(0);
}
