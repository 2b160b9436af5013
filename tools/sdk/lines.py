"""What the clients for Python have in common: a case in on each line, what came of it out on another.

A case says whom to ask and how (see `crates/lifesign-cli/tests/sdk/case.rs`); the script knows nothing
of gateways. What came of it is `{"events": [...], "answer": ..., "error": ...}` as the client hands it back.
"""
import asyncio
import json
import sys

PROMPT = "hello there"

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def serve(package, ask, ask_async):
    """Answers cases until standard input ends.

    ask(case, events) returns the answer and adds what streams to events. ask_async is the same as a
    coroutine, with a call for the first content as its third argument.
    """
    for line in sys.stdin:
        case = json.loads(line)
        came = leave(case, ask_async) if case["leaves"] else stay(case, package, ask)
        print(json.dumps(came), flush=True)


def stay(case, package, ask):
    """Asks and takes what comes to its end."""
    events = []
    try:
        answer = ask(case, events)
    except Exception as error:  # Which of them it is, is what is tested.
        return {"events": events, "answer": None, "error": told(error, package)}
    return {"events": events, "answer": answer, "error": None}


def leave(case, ask_async):
    """Asks and leaves: at the first content, or when the next line says so."""

    async def run():
        has_content = asyncio.Event()
        asking = asyncio.create_task(ask_async(case, [], has_content.set))
        if case["leaves"] == "at content":
            await has_content.wait()
        else:
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(run())
    return {"events": [], "answer": "left", "error": None}


def told(error, package):
    """Says everything of an error that a program could act on."""
    kinds = [kind for kind in type(error).__mro__ if kind.__module__.split(".")[0] == package]
    response = getattr(error, "response", None)
    fields = {name: getattr(error, name, None) for name in ("code", "param", "type", "body")}
    return {
        "kinds": [kind.__name__ for kind in kinds],
        "name": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "message": str(error),
        "retry_after": response.headers.get("retry-after") if response is not None else None,
        **fields,
    }


def plain(value):
    """Returns a model of pydantic's as JSON has it."""
    return value.model_dump(mode="json", warnings=False)
