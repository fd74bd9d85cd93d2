"""The official Python client: lists everything and carries out a plan. client_python.py TARGET PLAN -> JSON on stdout."""

import asyncio
import json
import sys

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

UNKNOWN = -32601


def text(model):
    return model.model_dump_json(by_alias=True, exclude_unset=True)


async def items(list_page, member):
    found, cursor = [], None
    while True:
        try:
            page = await list_page(params=types.PaginatedRequestParams(cursor=cursor))
        except McpError as error:
            if error.error.code == UNKNOWN:
                return found
            raise
        found += [text(item) for item in getattr(page, member)]
        cursor = page.nextCursor
        if cursor is None:
            return found


async def answer(session, method, params):
    match method:
        case "tools/call":
            return await session.call_tool(params["name"], params["arguments"])
        case "resources/read":
            return await session.read_resource(params["uri"])
        case "prompts/get":
            return await session.get_prompt(params["name"], params["arguments"])
        case "completion/complete":
            reference = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
            ref = reference[params["ref"]["type"]](**params["ref"])
            return await session.complete(ref, params["argument"])


async def talk(streams, plan):
    async with ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        lists = {
            "tools": await items(session.list_tools, "tools"),
            "resources": await items(session.list_resources, "resources"),
            "resourceTemplates": await items(session.list_resource_templates, "resourceTemplates"),
            "prompts": await items(session.list_prompts, "prompts"),
        }
        answers = [text(await answer(session, method, params)) for method, params in plan]
        return {"revision": hello.protocolVersion, "lists": lists, "answers": answers}


async def main():
    target, plan = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    if "url" in target:
        connection = streamablehttp_client(target["url"])
    elif "sse" in target:
        connection = sse_client(target["sse"])
    else:
        program, *args = target["command"]
        connection = stdio_client(StdioServerParameters(command=program, args=args, env=target["env"]))
    async with connection as streams:
        print(json.dumps(await talk(streams, plan)))


asyncio.run(main())
