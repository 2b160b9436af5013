#!/usr/bin/env python3
"""The official OpenAI client for Python: chat completions and responses."""
import openai

from lines import PROMPT, WEATHER, plain, serve

FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": WEATHER}


def settings(case):
    return {
        "base_url": case["base_url"],
        "api_key": "sk-unused",
        "max_retries": case["retries"],
        "timeout": 30,
    }


def chat(case):
    body = {
        "model": case["model"],
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": case["max_tokens"],
        "temperature": case["temperature"],
    }
    if case["tools"]:
        body["tools"] = [{"type": "function", "function": FUNCTION}]
        body["tool_choice"] = "required"
    return body


def responses(case):
    body = {
        "model": case["model"],
        "input": PROMPT,
        "max_output_tokens": case["max_tokens"],
        "temperature": case["temperature"],
    }
    if case["tools"]:
        body["tools"] = [{"type": "function", "strict": False, **FUNCTION}]
        body["tool_choice"] = "required"
    return body


def ask(case, events):
    with openai.OpenAI(**settings(case)) as client:
        if case["api"] == "chat":
            if not case["stream"]:
                return plain(client.chat.completions.create(**chat(case)))
            usage = {"include_usage": True}
            with client.chat.completions.create(
                **chat(case), stream=True, stream_options=usage
            ) as stream:
                events.extend(plain(chunk) for chunk in stream)
            return None
        if not case["stream"]:
            return plain(client.responses.create(**responses(case)))
        with client.responses.create(**responses(case), stream=True) as stream:
            for event in stream:
                events.append(plain(event))
        return None


async def ask_async(case, events, on_content):
    async with openai.AsyncOpenAI(**settings(case)) as client:
        if case["api"] == "chat":
            create, body = client.chat.completions.create, chat(case)
        else:
            create, body = client.responses.create, responses(case)
        if not case["stream"]:
            return await create(**body)
        async with await create(**body, stream=True) as stream:
            async for event in stream:
                is_chunk = case["api"] == "chat" and event.choices
                text = event.choices[0].delta.content if is_chunk else getattr(event, "delta", None)
                if text:
                    on_content()


serve("openai", ask, ask_async)
