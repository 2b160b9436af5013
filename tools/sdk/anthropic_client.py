#!/usr/bin/env python3
"""The official Anthropic client for Python."""
import anthropic

from lines import PROMPT, WEATHER, plain, serve


def settings(case):
    return {
        # This client adds /v1 itself.
        "base_url": case["base_url"].removesuffix("/v1"),
        "api_key": "sk-unused",
        "max_retries": case["retries"],
        "timeout": 30,
    }


def message(case):
    body = {
        "model": case["model"],
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": case["max_tokens"],
        # Its methods no longer take one; the servers do.
        "extra_body": {"temperature": case["temperature"]},
    }
    if case["tools"]:
        tool = {"name": "get_weather", "description": "The weather of a city"}
        body["tools"] = [{**tool, "input_schema": WEATHER}]
        body["tool_choice"] = {"type": "any"}
    return body


def ask(case, events):
    with anthropic.Anthropic(**settings(case)) as client:
        if not case["stream"]:
            return plain(client.messages.create(**message(case)))
        # The helper hands out the events of the wire, those it makes itself, and the sum.
        with client.messages.stream(**message(case)) as stream:
            for event in stream:
                events.append(plain(event))
            return plain(stream.get_final_message())


async def ask_async(case, events, on_content):
    async with anthropic.AsyncAnthropic(**settings(case)) as client:
        if not case["stream"]:
            return await client.messages.create(**message(case))
        async with client.messages.stream(**message(case)) as stream:
            async for event in stream:
                if event.type == "content_block_delta":
                    on_content()


serve("anthropic", ask, ask_async)
