#!/usr/bin/env python3
"""A scripted upstream: says nothing but a chosen sign of life for a while, then answers.

    python scripted.py PORT

The base URL holds the script: http://127.0.0.1:PORT/BEFORE,MID,GAP/v1. BEFORE is what is sent every
second for GAP seconds before the first event, MID the same between the first event and the first
word; both are names of SIGNS below. Prints a line for every request and for every caller that left.
"""
import asyncio
import json
import sys
import time

def ev(name, data):
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()

def resp(status="in_progress"):
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "tiny", "output": []}

START = {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "tiny",
         "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}}

SIGNS = {
    "none": b"",
    "nothing": b"",
    "comment": b': {"state":"attempt"}\n',
    "comment2": b': {"state":"attempt"}\n\n',
    "ping": b'event: ping\ndata: {"type": "ping"}\n\n',
    "keepalive": b'event: keepalive\ndata: {"type":"keepalive"}\n\n',
    "keepalive0": b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n',
    "keepalive9": b'event: keepalive\ndata: {"type":"keepalive","sequence_number":9}\n\n',
    "inprogress": ev("response.in_progress", {"type": "response.in_progress", "sequence_number": 0, "response": resp()}),
    "created": ev("response.created", {"type": "response.created", "sequence_number": 0, "response": resp()}),
    "unknown": ev("lifesign.beat", {"type": "lifesign.beat"}),
    "emptydata": b"data: {}\n\n",
    "notjson": b"event: ping\ndata: ok\n\n",
    "emptyevent": b"event: ping\n\n",
    "start": ev("message_start", START),
    "delta0": ev("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),
    "chunk0": b'data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"tiny","choices":[]}\n\n',
}

def responses():
    msg = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
           "content": [{"type": "output_text", "text": "all done", "annotations": []}]}
    first = [ev("response.created", {"type": "response.created", "sequence_number": 0, "response": resp()}),
             ev("response.in_progress", {"type": "response.in_progress", "sequence_number": 1, "response": resp()})]
    done = dict(resp("completed"), output=[msg], usage={"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11})
    rest = [ev("response.output_item.added", {"type": "response.output_item.added", "sequence_number": 2, "output_index": 0, "item": dict(msg, content=[], status="in_progress")}),
            ev("response.output_text.delta", {"type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "all done"}),
            ev("response.output_item.done", {"type": "response.output_item.done", "sequence_number": 4, "output_index": 0, "item": msg}),
            ev("response.completed", {"type": "response.completed", "sequence_number": 5, "response": done})]
    return first, rest

def messages():
    first = [ev("message_start", START)]
    rest = [ev("content_block_start", {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ev("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "all done"}}),
            ev("content_block_stop", {"type": "content_block_stop", "index": 0}),
            ev("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}}),
            ev("message_stop", {"type": "message_stop"})]
    return first, rest

def chat():
    def chunk(delta, finish=None):
        return ("data: " + json.dumps({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}) + "\n\n").encode()
    return [chunk({"role": "assistant"})], [chunk({"content": "all done"}), chunk({}, "stop"), b"data: [DONE]\n\n"]

START_TIME = time.monotonic()
def say(*words):
    print(f"{time.monotonic()-START_TIME:7.2f}", *words, flush=True)

async def beat(writer, reader, sign, gap):
    end = time.monotonic() + gap
    n = 0
    while time.monotonic() < end:
        await asyncio.sleep(min(1, max(0, end - time.monotonic())))
        if SIGNS[sign]:
            writer.write(SIGNS[sign]); n += 1
            await writer.drain()
        if reader.at_eof():
            raise ConnectionError("left")

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rows = head.split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (r.partition(":") for r in rows if r)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = line.split()
            say(method, path, "ua:", headers.get("user-agent"), "len", len(body))
            parts = path.strip("/").split("/")
            kind = path.split("?")[0].rsplit("/", 1)[-1]
            table = {"responses": responses, "messages": messages, "completions": chat}
            if method != "POST" or kind not in table:
                data = b'{"object":"list","data":[],"models":[]}' if kind == "models" else b"{}"
                status = "200 OK"
                writer.write(f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
                continue
            try: stream = json.loads(body).get("stream")
            except Exception: stream = "?"
            before, mid, gap = parts[0].split(",") if "," in parts[0] else ("none", "none", "0")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            began = time.monotonic()
            first, rest = table[kind]()
            try:
                if before != "none": await beat(writer, reader, before, float(gap))
                for f in first: writer.write(f)
                if mid != "none": await beat(writer, reader, mid, float(gap))
                for f in rest: writer.write(f)
                await writer.drain()
                say("  answered", path, "stream", stream, f"after {time.monotonic()-began:.1f} s")
            except ConnectionError as e:
                say("  CALLER LEFT", path, f"after {time.monotonic()-began:.1f} s")
            writer.close()
            return
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), limit=1<<24)
    say("listening")
    await server.serve_forever()

asyncio.run(main())
