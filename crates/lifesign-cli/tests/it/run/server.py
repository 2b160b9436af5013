#!/usr/bin/env python3
"""An MCP server over standard input and output that needs nothing but Python itself."""
import json
import os
import sys
import time

TOOLS = {
    "echo": {"text": {"type": "string"}},
    "ask": {"text": {"type": "string"}},
    "wait": {"file": {"type": "string"}},
    "variable": {"name": {"type": "string"}},
}


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def said(request, text):
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


def receive():
    line = sys.stdin.readline()
    if line:
        return json.loads(line)
    while "STAYS" in os.environ:
        time.sleep(0.05)
    sys.exit(0)


def ask(text):
    """Has the client make a model call."""
    content = {"type": "text", "text": text}
    params = {"messages": [{"role": "user", "content": content}], "maxTokens": 20}
    send({"id": "sampling", "method": "sampling/createMessage", "params": params})
    while True:
        message = receive()
        if message.get("id") == "sampling" and "method" not in message:
            break
    if "error" in message:
        return "refused: " + message["error"]["message"]
    return "it said " + message["result"]["content"]["text"]


def call(request):
    name, given = request["params"]["name"], request["params"].get("arguments", {})
    if name == "echo":
        said(request, given["text"])
    elif name == "ask":
        said(request, ask(given["text"]))
    elif name == "variable":
        said(request, os.environ.get(given["name"], "not set"))
    elif name == "wait":
        with open(given["file"], "a") as file:
            print("began", file=file)
        token = request["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "total": 2, "message": "waiting"}
        send({"method": "notifications/progress", "params": progress})
        # Until the client does not want it any more, or goes.
        while receive().get("method") != "notifications/cancelled":
            pass


print("server for tests says hello", file=sys.stderr, flush=True)
time.sleep(float(os.environ.get("STARTS_AFTER", "0")))
while True:
    request = receive()
    method = request.get("method")
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "tests", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        send({"id": request["id"], "result": result})
    elif method == "tools/list":
        tools = [
            {"name": name, "inputSchema": {"type": "object", "properties": fields, "required": list(fields)}}
            for name, fields in TOOLS.items()
        ]
        if "ECHOES" in os.environ:
            tools.append(tools[0])
        send({"id": request["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        call(request)
    elif "id" in request and method:
        send({"id": request["id"], "error": {"code": -32601, "message": "unknown method"}})
