"""A server of the fastmcp library over Streamable HTTP, in both eras: server_fastmcp.py PORT."""

import sys

from fastmcp import FastMCP
from fastmcp.prompts import Message

server = FastMCP("peers")


@server.tool
def greet(name: str) -> str:
    """Says hello."""
    return f"Grüße, {name} — 合計 👋"


@server.tool
def sum_of(a: int, b: int) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


@server.resource("peers://notes/today", mime_type="text/plain")
def today() -> str:
    """One text."""
    return "nothing happened"


@server.resource("peers://notes/{day}")
def note(day: str) -> str:
    """A text a day."""
    return f"nothing happened on {day}"


@server.prompt
def summarise(text: str) -> list[Message]:
    """Asks for less text."""
    return [Message(f"Shorten this: {text}")]


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
