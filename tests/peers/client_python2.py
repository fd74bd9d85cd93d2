"""The official Python client of both eras: lists everything and carries out a plan. client_python2.py TARGET PLAN MODE."""

import asyncio
import json
import sys

import mcp_types as types
from mcp import MCPError
from mcp.client import Client

UNKNOWN = -32601


def text(model):
    return model.model_dump_json(by_alias=True, exclude_unset=True)


async def items(list_page, member):
    found, cursor = [], None
    while True:
        try:
            page = await list_page(cursor=cursor)
        except MCPError as error:
            if error.error.code == UNKNOWN:
                return found
            raise
        found += [text(item) for item in getattr(page, member)]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def answer(client, method, params):
    match method:
        case "tools/call":
            return await client.call_tool(params["name"], params["arguments"])
        case "resources/read":
            return await client.read_resource(params["uri"])
        case "prompts/get":
            return await client.get_prompt(params["name"], params["arguments"])
        case "completion/complete":
            kinds = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}
            ref = kinds[params["ref"]["type"]](**params["ref"])
            return await client.complete(ref, params["argument"])


async def main():
    target, plan, mode = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    async with Client(target["url"], mode=mode) as client:
        lists = {
            "tools": await items(client.list_tools, "tools"),
            "resources": await items(client.list_resources, "resources"),
            "resourceTemplates": await items(client.list_resource_templates, "resource_templates"),
            "prompts": await items(client.list_prompts, "prompts"),
        }
        answers = [text(await answer(client, method, params)) for method, params in plan]
        print(json.dumps({"revision": client.protocol_version, "lists": lists, "answers": answers}))


asyncio.run(main())
