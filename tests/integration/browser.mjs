// Opens pages in Chromium and asks the student of each: node browser.mjs MODULES ADDRESS ROWS.json
//
// Rows are lists by page. Prints predictions by page, how they look, and whether a page works offline.

import { createRequire } from "node:module";
import fs from "node:fs";

const [modules, address, rowsFile, pictures] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const rows = JSON.parse(fs.readFileSync(rowsFile, "utf-8"));
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(fs.existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const found = {};
for (const [name, asked] of Object.entries(rows)) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`${address}/${name}/`);
  const state = (wanted) =>
    page.waitForFunction((state) => document.body.dataset.state === state, wanted, { timeout: 60_000 });
  await state("ready");
  const { predictions, milliseconds } = await page.evaluate(async (rows) => {
    const { Predictor } = await import(new URL("student.js", location.href).href);
    const student = await Predictor.load(), predictions = [], started = performance.now();
    for (const row of rows) {
      predictions.push(await student.predict(row));
    }
    return { predictions, milliseconds: (performance.now() - started) / rows.length };
  }, asked);

  const ask = async () => {
    for (const [field, value] of Object.entries(asked[0])) {
      const place = page.locator(`textarea[name=${field}]`);
      if (await place.count()) {
        await place.fill(Array.isArray(value) ? value.join("\n") : value);
      }
    }
    await page.locator("button").click();
    await state("done");
    return page.evaluate(() => ({
      text: document.getElementById("answer").innerText,
      prediction: JSON.parse(document.body.dataset.prediction),
    }));
  };
  const shown = await ask();
  if (pictures) {
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await page.screenshot({ path: `${pictures}/${name}-${width}.png` });
    }
  }
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.reload();
  await state("ready");
  const offline = await ask();
  found[name] = { predictions, milliseconds, shown, offline, errors };
  await context.close();
}
console.log(JSON.stringify(found));
await browser.close();
