// The official Anthropic client for Node.
import { lineage, PROMPT, require, serve, WEATHER } from "./lines.mjs";

const { default: Anthropic } = require("@anthropic-ai/sdk");

async function ask(given, events, signal, onContent) {
  const client = new Anthropic({
    // This client adds /v1 itself.
    baseURL: given.base_url.replace(/\/v1$/, ""),
    apiKey: "sk-unused",
    maxRetries: given.retries,
    timeout: 30_000,
  });
  const body = {
    model: given.model,
    messages: [{ role: "user", content: PROMPT }],
    max_tokens: given.max_tokens,
    temperature: given.temperature,
  };
  if (given.tools) {
    const tool = { name: "get_weather", description: "The weather of a city" };
    body.tools = [{ ...tool, input_schema: WEATHER }];
    body.tool_choice = { type: "any" };
  }
  if (!given.stream) return client.messages.create(body, { signal });
  // The helper hands out the events of the wire and their sum.
  const stream = client.messages.stream(body, { signal });
  for await (const event of stream) {
    // It fills its first event in as the answer grows.
    events.push(structuredClone(event));
    if (event.type === "content_block_delta") onContent();
  }
  return stream.finalMessage();
}

await serve(ask, (error) => lineage(error, Anthropic.AnthropicError));
