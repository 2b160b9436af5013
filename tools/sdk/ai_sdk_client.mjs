// The Vercel AI SDK with its providers for chat completions (compatible and OpenAI's own), responses
// and Anthropic's messages.
import { PROMPT, require, serve, WEATHER } from "./lines.mjs";

const { APICallError, AISDKError, generateText, jsonSchema, streamText, tool } = require("ai");
const { createAnthropic } = require("@ai-sdk/anthropic");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");

function model(given) {
  const settings = { baseURL: given.base_url, apiKey: "sk-unused" };
  switch (given.api) {
    case "chat":
      return createOpenAI(settings).chat(given.model);
    case "compatible":
      return createOpenAICompatible({ ...settings, name: "local", includeUsage: true })(given.model);
    case "messages":
      return createAnthropic(settings)(given.model);
    default:
      return createOpenAI(settings).responses(given.model);
  }
}

/** What came as a part of a stream: there the provider's own object is handed on as it is. */
const parts = new WeakSet();

async function ask(given, events, abortSignal, onContent) {
  const failures = [];
  const body = {
    model: model(given),
    prompt: PROMPT,
    maxOutputTokens: given.max_tokens,
    temperature: given.temperature,
    maxRetries: given.retries,
    abortSignal,
    onError: ({ error }) => failures.push(error),
  };
  if (given.tools) {
    const schema = jsonSchema(WEATHER);
    body.tools = { get_weather: tool({ description: "The weather of a city", inputSchema: schema }) };
    body.toolChoice = "required";
  }
  if (!given.stream) return sum(await generateText(body));

  const result = streamText(body);
  for await (const part of result.fullStream) {
    events.push(shown(part));
    if (part.type === "text-delta") onContent();
  }
  if (failures.length > 0) {
    if (typeof failures[0] === "object") parts.add(failures[0]);
    throw failures[0];
  }
  return sum(result);
}

/** The parts of a result that programs read. */
async function sum(result) {
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    toolCalls: await result.toolCalls,
    finishReason: await result.finishReason,
    usage: await result.usage,
    warnings: await result.warnings,
    modelId: (await result.response).modelId,
  };
}

/** A part of a stream without the request, the headers and the times, which are those of the transport. */
function shown({ type, request, response, error, ...rest }) {
  if (type === "error") return { type, error: String(error?.message ?? error?.data ?? error) };
  return { type, ...rest, ...(response ? { modelId: response.modelId } : {}) };
}

function kinds(error) {
  const names = [];
  if (APICallError.isInstance(error)) names.push("APICallError");
  if (AISDKError.isInstance(error)) names.push("AISDKError");
  if (parts.has(error)) names.push("error part");
  return names;
}

await serve(ask, kinds);
