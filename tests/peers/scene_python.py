"""The official Python client in a scene, of either generation: scene_python.py URL TOKEN MARKER STEPS [REVISION]."""

import asyncio
import json
import sys

URL, TOKEN, MARKER, STEPS = sys.argv[1:5]
HEADERS = {"authorization": f"Bearer {TOKEN}"}
heard = {"answers": [], "messages": []}


async def meet(*_):
    """Goes on when the other client has come so far, too."""
    print("meet", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def dump(model):
    return getattr(model, "root", model).model_dump(by_alias=True, mode="json", exclude_none=True)


async def keep(message):
    if hasattr(getattr(message, "root", message), "method"):
        heard["messages"].append(dump(message))


def callbacks(types):
    """What a person and a model say: the marker. Both clients are asked before either answers."""

    async def elicited(_, params):
        heard["messages"].append({"asked": dump(params)})
        await meet()
        return types.ElicitResult(action="accept", content={"username": MARKER, "email": MARKER})

    async def sampled(_, params):
        heard["messages"].append({"asked": dump(params)})
        await meet()
        content = types.TextContent(type="text", text=MARKER)
        return types.CreateMessageResult(role="assistant", content=content, model=MARKER)

    return {"elicitation_callback": elicited, "sampling_callback": sampled, "message_handler": keep}


async def play(peer, failure):
    async def progressed(*_):
        """Asks for progress; what comes is kept with all other messages."""

    for step in json.loads(STEPS):
        match step["do"]:
            case "level" if hasattr(peer, "initialize"):
                await peer.set_logging_level(step["level"])
            case "call":
                more = {"progress_callback": progressed} if step.get("progress") else {}
                try:
                    given = peer.call_tool(step["name"], step["arguments"], meta=step.get("meta"), **more)
                    heard["answers"].append(dump(await given))
                except failure as error:
                    heard["answers"].append({"failed": error.error.code, "message": error.error.message})
            case "await":
                while len([one for one in heard["messages"] if one.get("method") == step["method"]]) < step["count"]:
                    await asyncio.sleep(0.02)
            case "meet":
                await meet()


async def legacy():
    from mcp import ClientSession, McpError, types
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL, headers=HEADERS) as streams:
        async with ClientSession(streams[0], streams[1], **callbacks(types)) as session:
            await session.initialize()
            await play(session, McpError)


async def modern(revision):
    import httpx2
    import mcp_types as types
    from mcp import MCPError
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
        transport = streamable_http_client(URL, http_client=http)
        async with Client(transport, mode=revision, **callbacks(types)) as client:
            await play(client, MCPError)


asyncio.run(modern(sys.argv[5]) if sys.argv[5:] else legacy())
print(json.dumps(heard))
