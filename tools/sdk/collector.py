#!/usr/bin/env python3
"""A collector of spans: OTLP as Google's gRPC and protobuf and OpenTelemetry's messages read it.

Its first line says where it listens, `{"grpc": PORT, "http": PORT}`; each further line is a span that came.
It ends with standard input.
"""
import json
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SAYING = threading.Lock()


def say(value):
    with SAYING:
        print(json.dumps(value), flush=True)


def attributes(pairs):
    """Returns attributes as a plain object."""
    found = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        if kind == "array_value":
            value = [element.string_value for element in value.values]
        found[pair.key] = value
    return found


def take(protocol, request):
    """Says every span of a request."""
    for of_resource in request.resource_spans:
        resource = attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                say({
                    "protocol": protocol,
                    "resource": resource,
                    "scope": scope.scope.name,
                    "name": span.name,
                    "kind": Span.SpanKind.Name(span.kind),
                    "trace_id": span.trace_id.hex(),
                    "span_id": span.span_id.hex(),
                    "parent_span_id": span.parent_span_id.hex(),
                    "took_ns": span.end_time_unix_nano - span.start_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "events": {event.name: attributes(event.attributes) for event in span.events},
                    "status": span.status.code,
                    "message": span.status.message,
                })


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        take("grpc", request)
        return trace_service_pb2.ExportTraceServiceResponse()


class Post(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if (self.path, self.headers["content-type"]) != ("/v1/traces", "application/x-protobuf"):
            self.send_error(404)
            return
        take("http", trace_service_pb2.ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
posts = ThreadingHTTPServer(("127.0.0.1", 0), Post)
posts.daemon_threads = True
threading.Thread(target=posts.serve_forever, daemon=True).start()
say({"grpc": port, "http": posts.server_port})
sys.stdin.read()
server.stop(None)
