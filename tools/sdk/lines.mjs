// What the clients for Node have in common: a case in on each line, what came of it out on another.
//
// A case says whom to ask and how (see `crates/lifesign-cli/tests/sdk/case.rs`); the script knows nothing
// of gateways. What came of it is `{"events": [...], "answer": ..., "error": ...}` as the client hands it back.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { join } from "node:path";

export const PROMPT = "hello there";

export const WEATHER = {
  type: "object",
  properties: { city: { type: "string", enum: ["Oslo", "Rome"] } },
  required: ["city"],
  additionalProperties: false,
};

/** Requires a client; they are installed elsewhere, where modules do not look for themselves. */
export const require = createRequire(join(process.env.LIFESIGN_SDK_NODE_MODULES, "here.js"));

/**
 * Answers cases until standard input ends.
 *
 * `ask(case, events, signal, onContent)` returns the answer and adds what streams to `events`;
 * `kinds(error)` names the classes of the client that an error is of.
 */
export async function serve(ask, kinds) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (;;) {
    const { value, done } = await lines.next();
    if (done) return;
    const given = JSON.parse(value);
    const came = given.leaves ? await leave(given, ask, lines) : await stay(given, ask, kinds);
    process.stdout.write(JSON.stringify(came) + "\n");
  }
}

async function stay(given, ask, kinds) {
  const events = [];
  try {
    const answer = await ask(given, events, undefined, () => {});
    return { events, answer: answer ?? null, error: null };
  } catch (error) {
    return { events, answer: null, error: told(error, kinds) };
  }
}

/** Asks and leaves: at the first content, or when the next line says so. */
async function leave(given, ask, lines) {
  const leaving = new AbortController();
  const content = Promise.withResolvers();
  const asking = ask(given, [], leaving.signal, content.resolve);
  await (given.leaves === "at content" ? content.promise : lines.next());
  leaving.abort();
  await asking.catch(() => {});
  return { events: [], answer: "left", error: null };
}

function told(error, kinds) {
  return {
    kinds: kinds(error),
    name: error?.constructor?.name ?? typeof error,
    status: error?.status ?? error?.statusCode ?? null,
    message: String(error?.message ?? error),
    retry_after: header(error, "retry-after"),
    code: error?.code ?? null,
    param: error?.param ?? null,
    type: error?.type ?? null,
    body: error?.error ?? error?.data ?? error?.responseBody ?? null,
    retryable: error?.isRetryable ?? null,
  };
}

function header(error, name) {
  const headers = error?.headers ?? error?.responseHeaders;
  return (headers instanceof Headers ? headers.get(name) : headers?.[name]) ?? null;
}

/** Names the classes that `error` is of, up to those of the language. */
export function lineage(error, root) {
  const names = [];
  if (!(error instanceof root)) return names;
  for (let kind = error.constructor; kind && kind !== Error; kind = Object.getPrototypeOf(kind)) {
    names.push(kind.name);
  }
  return names;
}
