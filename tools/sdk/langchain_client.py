#!/usr/bin/env python3
"""LangChain's client for OpenAI: chat completions and responses."""
from contextlib import aclosing

from langchain_openai import ChatOpenAI

from lines import PROMPT, WEATHER, plain, serve

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": WEATHER,
    },
}


def model(case):
    chat = ChatOpenAI(
        base_url=case["base_url"],
        api_key="sk-unused",
        model=case["model"],
        max_tokens=case["max_tokens"],
        temperature=case["temperature"],
        max_retries=case["retries"],
        timeout=30,
        stream_usage=True,
        use_responses_api=case["api"] == "responses",
    )
    return chat.bind_tools([TOOL], tool_choice="required") if case["tools"] else chat


def ask(case, events):
    if not case["stream"]:
        return plain(model(case).invoke(PROMPT))
    whole = None
    for chunk in model(case).stream(PROMPT):
        events.append(plain(chunk))
        whole = chunk if whole is None else whole + chunk
    return whole and plain(whole)


async def ask_async(case, events, on_content):
    if not case["stream"]:
        return await model(case).ainvoke(PROMPT)
    async with aclosing(model(case).astream(PROMPT)) as stream:
        async for chunk in stream:
            # It stops reading by itself: this client loses a cancellation that meets a chunk.
            if chunk.text:
                break
    on_content()


# Failures are those of the client below.
serve("openai", ask, ask_async)
