#!/usr/bin/env python3
"""An MCP server made with the official SDK for Python, whose tools do what tests need.

`mcp_server.py` speaks over standard input and output, `mcp_server.py http` over HTTP, and says at which port.
"""
import asyncio
import os
import socket
import subprocess
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import SamplingMessage, TextContent, ToolAnnotations

server = MCPServer("tests")
cancelled = []


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@server.tool()
async def wait(ctx: Context) -> str:
    """Waits to be cancelled."""
    try:
        await ctx.report_progress(0)
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        cancelled.append("wait")
        raise
    return "waited"


@server.tool()
def was_cancelled() -> str:
    """Tells what was cancelled."""
    return " ".join(cancelled)


@server.tool()
def end(code: int) -> str:
    """Ends the server."""
    print("this is the end", file=sys.stderr, flush=True)
    os._exit(code)


@server.tool()
def spawn() -> str:
    """Starts a process, and tells the server's id and that process's."""
    child = subprocess.Popen(["sleep", "600"])
    return f"{os.getpid()} {child.pid}"


@server.tool()
def variables() -> str:
    """Tells the names of the environment's variables."""
    return " ".join(sorted(os.environ))


@server.tool()
async def ask(text: str, ctx: Context) -> str:
    """Asks the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    try:
        answer = await ctx.session.create_message([message], max_tokens=16)
    except Exception as error:
        return f"failed: {error}"
    return f"{answer.content.text} ({answer.stop_reason})"


def serve_http():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        serve_http()
    else:
        server.run("stdio")
