// What the page has to do in a browser, one check after its name: node checks.mjs NAME

import assert from "node:assert/strict";

import { findings, open } from "./browser.mjs";
import { call, gateway, json, pause, provider, until } from "./gateway.mjs";
import { past, present, stage } from "./stage.mjs";

// Failed requests that a check is about are no surprise.
const EXPECTED = /Failed to load resource/;

async function live(page, url) {
  await page.goto(url);
  await page.waitForSelector("#link.is-live");
}

async function simple(script, more = "", serve = "") {
  const upstream = await provider(script);
  return gateway(`[serve]
listen = "127.0.0.1:0"
${serve}
[[upstream]]
name = "up"
wire = "openai-chat"
base_url = "${upstream}/v1"
${more}`);
}

const state = (page, word) => page.locator("table.calls .badge", { hasText: word }).first();

const CHECKS = {
  async calls_appear_and_their_clocks_move() {
    const { url } = await stage();
    await past(url);
    const { page, wrong } = await open();
    await live(page, url);
    await page.getByText("No calls under way").waitFor();
    await present(url);

    for (const word of ["answering", "thinking", "heartbeats only", "silent", "queued", "held", "retrying"]) {
      await state(page, word).waitFor();
    }
    const silent = page.locator("tr", { has: page.locator(".is-silent") }).first();
    const meter = silent.getByRole("meter", { name: "raw" });
    assert.match(await meter.getAttribute("aria-valuetext"), /^\d+ s of 2 min, raw_silence, gateway\.toml:\d+$/);
    assert.match(await silent.locator(".sentence").textContent(), /^nothing from vertex for .* raw_silence cuts in/);
    assert.match(await silent.locator(".next").textContent(), /raw_silence in .*2 min, gateway\.toml:\d+/);
    // Several steps between two snapshots, each wider than the one before.
    const widths = [];
    for (let i = 0; i < 6; i += 1) {
      widths.push(parseFloat(await meter.locator("rect").getAttribute("width")));
      await pause(140);
    }
    assert.deepEqual(widths, [...widths].sort((one, other) => one - other));
    assert.ok(new Set(widths).size >= 4, `${widths}`);
    assert.deepEqual(wrong, []);
  },

  async a_cut_call_shows_the_bound_and_whose_setting_it_is() {
    const { url } = await simple('role; comment; hold', 'bounds = { raw_silence = "600ms" }\nretry = { attempts = 1 }');
    const { page, wrong } = await open();
    await live(page, url);
    const { text } = await call(url, "m").answered;

    const row = page.locator("table.ended tbody tr").first();
    await row.waitFor();
    assert.match(await row.textContent(), /cut by raw_silence at up.*bounds\.raw_silence600\sms, gateway\.toml:8/);
    await row.getByRole("link").click();
    await page.waitForURL(/view=timeline&call=/);
    const why = page.locator(".why");
    await why.waitFor();
    const said = await why.textContent();
    const sentence = JSON.parse(text).lifesign.sentence;
    assert.ok(said.includes(sentence), `${said} has not ${sentence}`);
    assert.match(said, /bounds\.raw_silence = 600 ms \(gateway\.toml:8\)/);
    assert.match(said, /set in gateway\.toml:8: raise raw_silence there/);
    assert.equal(await page.locator(".tracks .cut").count(), 1);
    assert.equal(await page.locator(".tracks .beat").count(), 1);
    assert.match(await page.locator(".tracks").getAttribute("aria-label"), /attempt 1 at up.*cut by raw_silence/);
    await page.getByText("The same as a list of what happened").click();
    await page.getByRole("cell", { name: /attempt 1 ends: / }).waitFor();
    assert.deepEqual(wrong, []);
  },

  async a_call_is_cancelled_with_the_mouse() {
    const { url } = await simple('role; repeat 0.2 { text "on and " } forever');
    const { page, wrong } = await open();
    const cancelled = call(url, "m");
    await live(page, url);
    const button = page.getByRole("button", { name: /^Cancel call / });
    await button.click();
    await page.getByRole("button", { name: "Keep it" }).click();
    assert.equal((await json(url, "/lifesign/calls")).calls.length, 1);

    await button.click();
    await page.getByRole("button", { name: "Cancel the call" }).click();

    const { text } = await cancelled.answered;
    assert.match(text, /by an operator/);
    await page.getByText("No calls under way").waitFor();
    await page.locator("table.ended .is-cancelled").waitFor();
    await until("word of it", async () => (await page.locator("#said").textContent()) === "the call is cancelled");
    assert.deepEqual(wrong, []);
  },

  async the_keyboard_alone_is_enough() {
    const script = `
      attempt 1: status 429 json [retry-after: 240]; error rate_limit_error; eof
      attempt 2: answer "ok"
      attempt 3+: role; repeat 0.2 { text "on and " } forever`;
    const more = 'retry = { attempts = 1 }\nbeats = { every = "280s" }';
    const { url } = await simple(script, more);
    await call(url, "m").answered;
    const waits = call(url, "m");
    const { page, wrong } = await open();
    await live(page, url);
    const press = async (key, until, most = 40) => {
      for (let i = 0; i < most; i += 1) {
        await page.keyboard.press(key);
        const found = await page.evaluate(() => {
          const { activeElement: at } = document;
          const ring = getComputedStyle(at).outlineStyle;
          return { name: at.getAttribute("aria-label") ?? at.textContent, ring };
        });
        if (until.test(found.name)) {
          assert.notEqual(found.ring, "none", `nobody sees that ${found.name} has the focus`);
          return;
        }
      }
      assert.fail(`${key} never comes to ${until}`);
    };
    const focused = () => page.evaluate(() => document.activeElement.id);

    await press("Tab", /Skip to the content/, 1);
    await page.keyboard.press("Enter");
    await until("the content in focus", async () => (await focused()) === "main");
    await press("Shift+Tab", /^Upstreams/);
    await page.keyboard.press("Enter");
    await page.waitForURL(/view=upstreams/);
    await until("the title in focus", async () => (await focused()) === "title");
    await press("Tab", /^Release the hold on m at up$/);
    await page.keyboard.press("Enter");
    assert.equal((await waits.answered).status, 200);
    await page.getByRole("button", { name: /^Release/ }).waitFor({ state: "detached" });

    const cancelled = call(url, "m");
    await press("Shift+Tab", /^Calls/);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Cancel call / }).waitFor();
    await press("Tab", /^Cancel call /);
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^Cancel call /);
    await page.keyboard.press("Enter");
    await press("Tab", /^Cancel the call$/, 3);
    await page.keyboard.press("Enter");
    assert.match((await cancelled.answered).text, /by an operator/);
    await until("the title in focus again", async () => (await focused()) === "title");
    assert.deepEqual(wrong, []);
  },

  async axe_finds_nothing_serious() {
    const { url } = await stage();
    await past(url);
    await present(url);
    const { recent } = await json(url, "/lifesign/live");
    const cut = recent.find((ended) => ended.cut);
    const { page, wrong } = await open();
    const views = ["/", `/?view=timeline&call=${cut.id}`, "/?view=upstreams", "/?view=silence"];
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const view of views) {
        await live(page, url + view);
        for (const summary of await page.locator("summary").all()) await summary.click();
        assert.deepEqual(await findings(page), [], `${view} ${colorScheme}`);
      }
      await live(page, url);
      await page.getByRole("button", { name: /^Cancel call / }).first().click();
      assert.deepEqual(await findings(page), [], `the dialog ${colorScheme}`);
      await page.keyboard.press("Escape");
    }
    await page.setViewportSize({ width: 360, height: 780 });
    for (const view of views) {
      await live(page, url + view);
      assert.deepEqual(await findings(page), [], `${view} on a phone`);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.equal(width, 360, `${view} is wider than a phone`);
    }
    assert.deepEqual(wrong, []);
  },

  async where_streams_are_blocked_it_asks_again_and_again() {
    const { url } = await simple('role; repeat 0.2 { text "on and " } forever');
    const { page, wrong } = await open();
    await page.route("**/lifesign/page/events*", (route) => route.abort());
    await page.goto(url);
    await page.locator("#link.is-polling").waitFor();
    const under_way = call(url, "m");

    await state(page, "answering").waitFor();
    under_way.leave();
    await page.getByText("No calls under way").waitFor();

    assert.deepEqual(wrong.filter((message) => !EXPECTED.test(message)), []);
  },

  async what_happens_to_the_gateway_is_said() {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const serve = (at) => `[serve]\nlisten = "127.0.0.1:${at}"\n[[upstream]]\nname = "openai"\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n`;
    const first = await gateway(serve(port));
    const { page, wrong } = await open();
    await live(page, first.url);

    await first.stop();
    await page.locator("#link.is-lost", { hasText: "no answer since" }).waitFor();
    await gateway(serve(port));
    await page.locator("#link.is-live").waitFor();

    assert.deepEqual(wrong.filter((message) => !EXPECTED.test(message)), []);
  },

  async an_admin_key_opens_it() {
    const callers = '\n[[key]]\nname = "alice"\nsha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"\n';
    const script = 'role; repeat 0.2 { text "on and " } forever';
    process.env.LIFESIGN_TEST_ADMIN = "open sesame";
    const { url } = await simple(script, `auth = "own"\n${callers}`, 'admin_key = { env = "LIFESIGN_TEST_ADMIN" }');
    const cancelled = call(url, "secret-model", { headers: { authorization: "Bearer foo" } });
    const { page, wrong } = await open();
    await page.goto(url);
    const field = page.getByLabel("Admin key");
    await field.waitFor();
    assert.ok(!(await page.content()).includes("secret-model"));
    assert.deepEqual(await findings(page), []);

    await field.fill("open barley");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("That is not the admin key.").waitFor();
    await field.fill("open sesame");
    await page.keyboard.press("Enter");

    await page.getByText("secret-model").waitFor();
    await page.getByText("alice").waitFor();
    await page.reload();
    await page.locator("#link.is-live").waitFor();
    await page.getByRole("button", { name: /^Cancel call / }).click();
    await page.getByRole("button", { name: "Cancel the call" }).click();
    assert.match((await cancelled.answered).text, /by an operator/);
    assert.equal((await page.context().cookies()).length, 0);
    await page.getByRole("button", { name: "Forget the key" }).click();
    await field.waitFor();
    assert.deepEqual(wrong.filter((message) => !EXPECTED.test(message)), []);
  },

  async what_callers_name_is_text() {
    const { url } = await simple("role; hold");
    const evil = `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;
    call(url, evil);
    const { page, wrong } = await open();
    await live(page, url);
    await page.getByText(evil).waitFor();
    for (const view of ["timeline", "upstreams", "silence"]) {
      await live(page, `${url}/?view=${view}`);
      assert.equal(await page.locator("main img, main script").count(), 0);
      assert.doesNotMatch(await page.title(), /taken/);
    }
    assert.deepEqual(wrong, []);
  },

  async without_its_script_it_is_a_page_to_read() {
    const { url } = await simple('role; repeat 0.2 { text "on and " } forever');
    call(url, "m");
    await until("the call", async () => (await json(url, "/lifesign/calls")).calls.length > 0);
    const { page } = await open({ javaScriptEnabled: false });
    await page.goto(url);
    await state(page, "answering").waitFor();
    await page.getByRole("link", { name: /^Timeline of call/ }).click();
    await page.getByRole("heading", { name: /^Call / }).waitFor();
    assert.equal(await page.locator("button:visible").count(), 0);
  },
};

const check = CHECKS[process.argv[2]];
if (!check) {
  console.error(`there is ${Object.keys(CHECKS).join(", ")}`);
  process.exit(2);
}
try {
  await check();
} catch (error) {
  console.error(error);
  process.exit(1);
}
// Whatever it has opened ends with it.
process.exit(0);
