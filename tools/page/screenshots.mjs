// Pictures of the four views, light and dark, for the documentation.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { open } from "./browser.mjs";
import { json, pause } from "./gateway.mjs";
import { reduced } from "./png.mjs";
import { history, past, present, slow, stage } from "./stage.mjs";

const into = process.argv[2];
// So long that clocks have something to show.
const SETTLES_MS = Number(process.env.LIFESIGN_SETTLES_MS ?? 35_000);

const { url } = await stage({ anthropic: slow() });
await history(url);
await past(url, { claude: false });
await present(url);
await pause(SETTLES_MS);

const { recent } = await json(url, "/lifesign/live");
const cut = recent.find((call) => call.cut && call.upstream === "anthropic");
const views = [
  ["calls", "/"],
  ["timeline", `/?view=timeline&call=${cut.id}`],
  ["upstreams", "/?view=upstreams"],
  ["silence", "/?view=silence"],
];
const { browser, wrong, page } = await open({ viewport: { width: 1280, height: 860 } });
for (const [name, path] of views) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(url + path);
    await page.waitForSelector("#link.is-live");
    await pause(300);
    const file = join(into, `page-${name}-${colorScheme}.png`);
    const picture = reduced(await page.screenshot());
    writeFileSync(file, picture);
    console.log(`${file}: ${Math.ceil(picture.length / 1024)} KiB`);
  }
}
await browser.close();
if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
process.exit(0);
