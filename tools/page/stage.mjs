// A gateway with something of everything: calls that answer, think, ping, are silent, wait in line, are
// held, and were cut.

import { call, gateway, json, pause, provider, until } from "./gateway.mjs";

// What each provider does, and what is set for it.
const PROVIDERS = {
  anthropic: {
    models: "claude-*",
    script: `
      attempt 1-6: role; +0.9 think "The moon. "; +0.4 text "Twice a day "; +2.2 text "the tide "; answer "turns."
      attempt 7+: role; repeat 0.8 { think "The moon pulls the water towards it. " } forever`,
  },
  openai: {
    models: "gpt-*",
    script: `
      attempt 1-4: role; +0.5 text "Tides "; +0.6 text "rise "; +1.4 answer "and fall."
      attempt 5: role; +0.6 text "Tides "; +0.3 cut
      attempt 6-8: status 500 json; error server_error "upstream connect error"; eof
      attempt 9+: role; repeat 0.4 { text "and the water comes back, " } forever`,
  },
  bedrock: {
    models: "anthropic.claude-*",
    script: `role; repeat 1.1 { comment } x2; hold`,
    more: 'bounds = { before_content = "4s" }\nretry = { attempts = 2 }',
  },
  vertex: { models: "gemini-*", script: `role; +0.8 text "The sea "; hold` },
  openrouter: { models: "deepseek/*", script: `repeat 4 { comment "OPENROUTER PROCESSING" } forever` },
  azure: {
    models: "o4-*",
    script: `
      attempt 1: status 429 json [retry-after: 240]; error rate_limit_error "slow down"; eof
      attempt 2+: role; +0.5 text "Here "; answer "it is."`,
    more: 'retry = { max_wait = "5 min", max_total_wait = "10 min" }\nbeats = { every = "280s" }',
  },
  llama: {
    models: "qwen3-*",
    script: `role; +0.4 text "Well, "; repeat 0.5 { text "the tide turns, " } forever`,
    more: "concurrency = 2",
  },
};

const SETTINGS = `[serve]
listen = "127.0.0.1:0"

[bounds]
headers = "60s"
raw_silence = "2 min"
between_events = "150s"

[retry.transport]
first_delay = "300ms"

[retry.cut]
first_delay = "300ms"
`;

// Starts a gateway before these providers, some of which may do otherwise.
export async function stage(others = {}) {
  const tables = [];
  for (const [name, { models, script, more = "" }] of Object.entries({ ...PROVIDERS, ...others })) {
    const url = await provider(script);
    const wire = name === "anthropic" ? "anthropic" : "openai-chat";
    tables.push(`
[[upstream]]
name = "${name}"
wire = "${wire}"
base_url = "${url}/v1"
models = ["${models}"]
${more}
`);
  }
  return gateway(SETTINGS + tables.join(""));
}

// Makes calls that have ended by the time that this returns, one of them cut.
export async function past(url, { claude: withClaude = true } = {}) {
  const answered = [];
  for (let i = 0; i < 6; i += 1) {
    if (withClaude) answered.push(claude(url).answered);
    answered.push(call(url, "gpt-5.2").answered);
    await pause(150);
  }
  answered.push(call(url, "anthropic.claude-opus-4-5").answered);
  await Promise.all(answered);
}

// Makes calls that go on, and returns once each does what it is there for.
export async function present(url) {
  const calls = [
    claude(url),
    call(url, "gemini-3-pro"),
    call(url, "deepseek/deepseek-r2"),
    call(url, "gpt-5.2"),
    call(url, "o4-mini"),
  ];
  await until("a hold", async () => (await json(url, "/lifesign/holds")).holds.length > 0);
  calls.push(call(url, "o4-mini"));
  for (let i = 0; i < 4; i += 1) {
    calls.push(call(url, "qwen3-32b"));
    await pause(100);
  }
  const wanted = ["answering", "thinking", "alive", "silent", "queued", "held", "retrying"];
  await until(
    "calls in every state",
    async () => {
      const { summary } = await json(url, "/lifesign/live");
      return wanted.every((state) => summary.states[state] > 0);
    },
    40_000,
  );
  return calls;
}

// How many calls have had their gaps, where there is a history.
const HISTORY = 48;

// Returns a provider that takes its time, a little more than its bound allows now and then.
export function slow() {
  let seed = 7;
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
  const gap = (most) => (0.12 * (most / 0.12) ** random()).toFixed(2);
  const attempts = [];
  for (let n = 1; n <= HISTORY; n += 1) {
    const silence = `+${gap(6)} ping; +${gap(4)} ping`;
    const words = [1, 2, 3, 4].map(() => `+${gap(5)} text "the tide turns, "`).join("; ");
    attempts.push(`attempt ${n}: role; ${silence}; +${gap(2)} think "The moon. "; ${words}; answer "always."`);
  }
  attempts.push(`attempt ${HISTORY + 1}: role; repeat 1.7 { ping } forever`);
  attempts.push(`attempt ${HISTORY + 2}: role; +1.9 ping; +2.2 ping; hold`);
  attempts.push(
    `attempt ${HISTORY + 3}+: role; repeat 0.8 { think "The moon pulls the water towards it. " } forever`,
  );
  return {
    ...PROVIDERS.anthropic,
    script: attempts.join("\n"),
    more: 'bounds = { before_content = "9s" }\nretry = { attempts = 2 }',
  };
}

// Makes the calls that the slow provider is there for, and then one that is cut.
export async function history(url) {
  const answered = [];
  for (let n = 1; n <= HISTORY; n += 1) answered.push(claude(url).answered);
  await Promise.all(answered);
  await claude(url).answered;
}

function claude(url) {
  return call(url, "claude-sonnet-4-5", { path: "/v1/messages" });
}
