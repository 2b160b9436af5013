"""Reads requests, one `{"wire": ..., "body": ...}` a line, and holds each against the types of the
wire's official client. Prints a line for each that they refuse, and at the end how many it read."""

import json
import sys
from collections.abc import Iterator

from anthropic.types import MessageCreateParams
from openai.types.chat import CompletionCreateParams
from openai.types.responses import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

TYPES = {
    "anthropic": MessageCreateParams,
    "openai-chat": CompletionCreateParams,
    "openai-responses": ResponseCreateParams,
}


def read(value):
    """Reads lists to their end: pydantic looks at what an `Iterable` holds only when it is read."""
    if isinstance(value, dict):
        for part in value.values():
            read(part)
    elif isinstance(value, (list, tuple, Iterator)) or type(value).__name__ == "ValidatorIterator":
        for part in value:
            read(part)


def main():
    adapters = {wire: TypeAdapter(kind) for wire, kind in TYPES.items()}
    count = 0
    for line in sys.stdin:
        request = json.loads(line)
        count += 1
        try:
            read(adapters[request["wire"]].validate_python(request["body"]))
        except ValidationError as error:
            print("refused", request["wire"], str(error).replace("\n", " ")[:2000], line)
    print("read", count)


main()
