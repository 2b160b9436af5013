// A gateway and the providers before it, as processes of the real program.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = process.env.LIFESIGN_PROGRAM;
const children = new Set();
const directory = mkdtempSync(join(tmpdir(), "lifesign-page-"));

// Whatever ends this process, nothing that it started stays behind.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});
// Nothing here takes so long.
setTimeout(() => {
  console.error("it takes too long");
  process.exit(1);
}, 120_000).unref();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

// Starts the program, and returns what follows `sign` on the line of its log that has it.
async function start(args, sign) {
  const child = spawn(program, args, {
    cwd: directory,
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env.PATH, LIFESIGN_TEST_ADMIN: process.env.LIFESIGN_TEST_ADMIN ?? "" },
  });
  children.add(child);
  const said = [];
  const lines = createInterface({ input: child.stderr });
  const found = new Promise((resolve, reject) => {
    lines.on("line", (line) => {
      said.push(line);
      const at = line.indexOf(sign);
      if (at >= 0) resolve(line.slice(at + sign.length).split(/[\s;]/)[0]);
    });
    child.on("exit", (code) => reject(new Error(`${args[0]} ended with ${code}:\n${said.join("\n")}`)));
  });
  const address = await found;
  return { address, stop: () => stop(child) };
}

async function stop(child) {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
  children.delete(child);
}

// Starts a provider that plays `script`, and returns its URL.
export async function provider(script) {
  const file = `script-${children.size}.txt`;
  writeFileSync(join(directory, file), script);
  const { address } = await start(["standin", "--script", file, "--listen", "127.0.0.1:0"], "listening at ");
  return address;
}

// Starts a gateway with these settings, and returns its URL and what stops it.
export async function gateway(settings) {
  writeFileSync(join(directory, "gateway.toml"), settings);
  const { address, stop } = await start(["serve", "--config", "gateway.toml"], "listening on ");
  return { url: `http://${address.replace("http://", "")}`, stop };
}

// Makes a call, and returns what leaves it. Its answer is read, and thrown away.
export function call(url, model, more = {}) {
  const leave = new AbortController();
  const { headers, path = "/v1/chat/completions", ...body } = more;
  const answered = fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({
      model,
      stream: true,
      max_tokens: 4096,
      messages: [{ role: "user", content: "What do the tides do?" }],
      ...body,
    }),
    signal: leave.signal,
  })
    .then(async (response) => ({ status: response.status, text: await response.text() }))
    .catch((error) => ({ status: 0, text: String(error) }));
  return { leave: () => leave.abort(), answered };
}

export async function json(url, path) {
  const response = await fetch(url + path);
  return response.json();
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Waits for something that comes soon.
export async function until(what, is, ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await is();
    if (found) return found;
    if (Date.now() > end) throw new Error(`it never came: ${what}`);
    await pause(50);
  }
}
