// The official OpenAI client for Node: chat completions and responses.
import { lineage, PROMPT, require, serve, WEATHER } from "./lines.mjs";

const { default: OpenAI } = require("openai");

const FUNCTION = { name: "get_weather", description: "The weather of a city", parameters: WEATHER };

function chat(given) {
  const body = {
    model: given.model,
    messages: [{ role: "user", content: PROMPT }],
    max_tokens: given.max_tokens,
    temperature: given.temperature,
  };
  if (given.tools) {
    body.tools = [{ type: "function", function: FUNCTION }];
    body.tool_choice = "required";
  }
  if (given.stream) body.stream_options = { include_usage: true };
  return body;
}

function responses(given) {
  const body = {
    model: given.model,
    input: PROMPT,
    max_output_tokens: given.max_tokens,
    temperature: given.temperature,
  };
  if (given.tools) {
    body.tools = [{ type: "function", strict: false, ...FUNCTION }];
    body.tool_choice = "required";
  }
  return body;
}

async function ask(given, events, signal, onContent) {
  const client = new OpenAI({
    baseURL: given.base_url,
    apiKey: "sk-unused",
    maxRetries: given.retries,
    timeout: 30_000,
  });
  const [api, body] =
    given.api === "chat" ? [client.chat.completions, chat(given)] : [client.responses, responses(given)];
  if (!given.stream) return api.create(body, { signal });
  for await (const event of await api.create({ ...body, stream: true }, { signal })) {
    events.push(event);
    if (given.api === "chat" ? event.choices[0]?.delta?.content : event.delta) onContent();
  }
}

await serve(ask, (error) => lineage(error, OpenAI.OpenAIError));
