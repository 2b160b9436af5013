// The browser, and what is wrong with a page that it shows.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(`${process.env.LIFESIGN_PAGE_MODULES}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// Opens a browser, and a page that fails the run by what it writes to its console.
export async function open(options = {}) {
  const browser = await chromium.launch({
    executablePath: process.env.LIFESIGN_CHROMIUM,
    // Containers run as root and have little shared memory; what is shown comes from this machine.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  });
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    timezoneId: "UTC",
    ...options,
  });
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (!["127.0.0.1", "localhost"].includes(hostname) && protocol !== "data:") {
      wrong.push(`asks ${request.url()}`);
    }
  });
  return { browser, context, page, wrong };
}

// Returns what axe finds that is serious or worse.
export async function findings(page) {
  // The page's own policy lets nobody add a script; the debugger's evaluation is no script of the page.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}\n    ${nodes.map((node) => node.html).join("\n    ")}`);
}
