// Drives Chromium for tests/ui/browser.py: one JSON request on a line of standard input, one answer on a line.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const root = process.argv[2];
const require = createRequire(pathToFileURL(`${root}/package.json`));
const { chromium } = require("playwright-core");
const unpacked = (await import(pathToFileURL(require.resolve("@sparticuz/chromium")))).default;
const axe = require("axe-core").source;

// Milliseconds until a test fails that would otherwise wait for ever, also on a busy machine.
const PATIENCE = 300000;
const browser = await chromium.launch({
  executablePath: await unpacked.executablePath(),
  args: [...unpacked.args.filter((flag) => flag !== "--single-process" && flag !== "--no-zygote"), "--no-sandbox"],
  timeout: PATIENCE,
});
const pages = new Map();

async function open({ options }) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const seen = { requests: [], updates: [], errors: [], dialogs: [] };
  context.on("request", (request) => {
    seen.requests.push(request.url());
    if (request.headers()["skillwire-update"]) seen.updates.push(request.url());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") seen.errors.push(message.text()); });
  page.on("dialog", (dialog) => { seen.dialogs.push(dialog.message()); dialog.dismiss(); });
  pages.set(pages.size + 1, { context, page, seen, held: [] });
  return pages.size;
}

const acts = {
  goto: async ({ page }, [url]) => (await page.goto(url))?.status() ?? 0,
  click: ({ page }, [selector]) => page.click(selector),
  fill: ({ page }, [selector, text]) => page.fill(selector, text),
  type: ({ page }, [text]) => page.keyboard.type(text, { delay: 5 }),
  focus: ({ page }, [selector]) => page.focus(selector),
  press: ({ page }, [key]) => page.keyboard.press(key),
  check: ({ page }, [selector]) => page.check(selector),
  select: ({ page }, [selector, value]) => page.selectOption(selector, value).then(() => null),
  text: ({ page }, [selector]) => page.innerText(selector),
  texts: ({ page }, [selector]) => page.locator(selector).allInnerTexts(),
  count: ({ page }, [selector]) => page.locator(selector).count(),
  attribute: ({ page }, [selector, name]) => page.getAttribute(selector, name),
  wait: ({ page }, [selector, state]) => page.waitForSelector(selector, { state: state ?? "visible" }).then(() => null),
  wait_for: async ({ page }, [expression]) => {
    // Not `waitForFunction`: it evaluates text in the page, whose policy forbids that.
    for (const end = Date.now() + PATIENCE; Date.now() < end; await new Promise((done) => setTimeout(done, 50))) {
      if (await page.evaluate(expression)) return;
    }
    throw new Error(`${expression} did not become true`);
  },
  evaluate: ({ page }, [expression]) => page.evaluate(expression),
  // The next request of a script for this path is never answered, or fails; `held` waits until it was made.
  hold: ({ page, held }, [path]) => page.route((url) => url.pathname.endsWith(path), (route) => { held.push(route); }, { times: 1 }),
  fail: ({ page, held }, [path]) => page.route((url) => url.pathname.endsWith(path), (route) => { held.push(route); return route.abort(); }, { times: 1 }),
  held: async ({ held }) => {
    for (const end = Date.now() + PATIENCE; !held.length && Date.now() < end; await new Promise((done) => setTimeout(done, 20)));
    if (!held.shift()) throw new Error("no such request was made");
  },
  url: ({ page }) => page.url(),
  reload: ({ page }) => page.reload().then(() => null),
  screenshot: async ({ page }, [path, whole]) => { await page.screenshot({ path, fullPage: whole ?? false }); },
  emulate: ({ page }, [media]) => page.emulateMedia(media),
  size: ({ page }, [width, height]) => page.setViewportSize({ width, height }),
  cookies: ({ context }) => context.cookies(),
  seen: ({ seen }) => seen,
  axe: async ({ page }, rules) => {
    // In a world of its own: the page's policy stays as it is.
    const session = await page.context().newCDPSession(page);
    const { frameTree } = await session.send("Page.getFrameTree");
    const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
    await session.send("Runtime.evaluate", { expression: axe, contextId });
    const { result } = await session.send("Runtime.evaluate", {
      expression: `axe.run(document, ${JSON.stringify({ resultTypes: ["violations"], ...(rules.length ? { runOnly: rules } : {}) })}).then((found) => JSON.stringify(found.violations.map((one) => ({ id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 200) + ' :: ' + node.failureSummary) }))))`,
      contextId, awaitPromise: true, returnByValue: true,
    });
    return JSON.parse(result.value);
  },
  close: ({ context }) => context.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { act, page, args, options } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (act === "open" ? await open({ options }) : await acts[act](pages.get(page), args)) ?? null };
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await browser.close();
