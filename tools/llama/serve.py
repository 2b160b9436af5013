#!/usr/bin/env python3
"""Serves a model with a real llama.cpp HTTP server on 127.0.0.1.

    python serve.py MODEL [PORT]

PORT 0, the default, takes a free one. Prints `listening http://127.0.0.1:PORT` on standard output once
the server answers. Ends when standard input closes, so that a test that was killed leaves nothing
behind, and on SIGTERM or SIGINT. The server's own log goes to standard error.
"""
import argparse
import os
import socket
import sys
import threading

import xllamacpp


def free_port():
    """Returns a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(model, port):
    """Starts the server in the background and returns it once it answers."""
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_parallel = 4
    settings.n_ctx = 4 * 131_072
    # One thread: the tests that run beside it need the other core.
    settings.cpuparams.n_threads = 1
    settings.n_predict = -1
    settings.warmup = False
    # Cached prompts would make the usage of a request depend on those before it.
    settings.cache_prompt = False
    settings.model_alias = {"tiny"}
    return xllamacpp.Server(settings)


def leave_with_standard_input():
    """Ends the process when standard input closes; the server's threads would outlive main."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description="Serves a model with a real llama.cpp HTTP server.")
    parser.add_argument("model", help="path of the model (.gguf)")
    parser.add_argument("port", nargs="?", type=int, default=0, help="port (default 0: a free one)")
    arguments = parser.parse_args()

    # Watched from the start: loading a model can outlast the test that asked for it.
    watcher = threading.Thread(target=leave_with_standard_input, daemon=True)
    watcher.start()
    server = start(arguments.model, arguments.port or free_port())
    print(f"listening {server.listening_address}", flush=True)
    watcher.join()


if __name__ == "__main__":
    main()
