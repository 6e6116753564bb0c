// The pages of `paceline ui` in a real browser, on a real run with one slow worker. Run by ./dev web-test, which gives
// the program's path; --shots DIR also takes pictures.
import assert from 'node:assert/strict';
import {spawn, execFileSync} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import puppeteer from 'puppeteer-core';
import axe from 'axe-core';

const program = path.resolve(process.argv[2]);
const shots = process.argv.includes('--shots') ? process.argv[process.argv.indexOf('--shots') + 1] : null;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'paceline-web-'));
const children = [];
const cleanups = [];

function start(words, options = {}) {
  const child = spawn(program, words, {cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], ...options});
  child.text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', bytes => { child.text += bytes; });
  child.ended = new Promise(done => child.on('exit', (code, signal) => done(signal ?? code)));
  children.push(child);
  return child;
}

const sleep = ms => new Promise(done => setTimeout(done, ms));
async function until(what, limit_s, condition) {
  const end = Date.now() + 1000 * limit_s;
  let last;
  while (Date.now() < end) {
    try {
      last = await condition();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    await sleep(100);
  }
  throw new Error(`after ${limit_s} s not yet: ${what} (${last})`);
}

function job(name, more = '') {
  const file = path.join(folder, `${name}.toml`);
  fs.writeFileSync(file, `name = "${name}"
epochs = 60
batch = 8
runs_dir = "${folder}/runs"
[model]
name = "gpt-byte"
width = 16
layers = 1
heads = 2
context = 16
[data]
source = "headers"
train_samples = 3000
test_samples = 100
[optimizer]
name = "adamw"
lr = 0.001
[evaluate]
every_epochs = 0.1
[checkpoint]
every_epochs = 0.1
${more}
[[device]]
count = 3
pace_ms = 30
[[device]]
count = 1
pace_ms = 90
`);
  return file;
}

const runs = () => fs.existsSync(`${folder}/runs`) ? fs.readdirSync(`${folder}/runs`).filter(name => fs.existsSync(`${folder}/runs/${name}/metrics.jsonl`)) : [];

// The worker of that name among the processes that `parent` started.
function child_pid(parent, ...words) {
  for (const name of fs.readdirSync('/proc').filter(one => /^\d+$/.test(one))) {
    try {
      const given = fs.readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0');
      const own_parent = Number(fs.readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1].split(' ')[1]);
      if (own_parent === parent && words.every(word => given.includes(word))) return Number(name);
    } catch { /* it has ended meanwhile */ }
  }
  return null;
}

// Where the child of `parent` with this word among its words listens.
function listening_child(parent, word) {
  const words = fs.readFileSync(`/proc/${child_pid(parent, word)}/cmdline`, 'utf8').split('\0');
  return Number(words[words.indexOf('--listen') + 1].split(':').pop());
}

// By the tab key, from the top of the page.
async function tab_to(page, selector) {
  await page.evaluate(() => { document.activeElement?.blur(); scrollTo(0, 0); });
  for (let i = 0; i < 40; ++i) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(wanted => document.activeElement?.matches(wanted), selector)) return;
  }
  throw new Error(`the tab key does not come to ${selector}`);
}

// Of two runs, the newer one under asp.
async function filtered_and_sorted(page) {
  const listed = () => page.$$eval('.run .name', list => list.map(one => one.textContent).join(' | '));
  await page.type('.list-tools input', 'asp');
  await until('the filter', 5, async () => /asp/.test(await listed()) && !/bsp/.test(await listed()));
  await page.$eval('.list-tools input', node => { node.value = ''; node.dispatchEvent(new Event('input')); });
  await until('no filter', 5, async () => /asp.*bsp/.test(await listed()));
  await page.select('.list-tools select', 'name');
  await until('by name', 5, async () => /one-slow.*other/.test(await listed()));
  await page.select('.list-tools select', 'newest first');
  // By the keyboard: a run's box is ticked by the space bar, and Enter on its name opens it.
  await tab_to(page, '.run input');
  await page.keyboard.press('Space');
  assert.equal((await page.$$('.run input:checked')).length, 1);
  await page.keyboard.press('Space');
  await tab_to(page, '.run a');
  await page.keyboard.press('Enter');
  await until('the run by the keyboard', 10, async () => (await page.$('.run-title')) !== null);
  await page.evaluate(() => { location.hash = '#/'; });
  await until('back in the list', 10, async () => (await page.$$('.run')).length === 2);
}

const text_of = (page, selector) => page.$eval(selector, node => node.textContent);

// As it is now, at every width and in both colors: nothing for axe to find, and nothing wider than the window.
async function holds_everywhere(page, what) {
  const before = page.viewport();
  for (const scheme of ['light', 'dark']) for (const width of [360, 400, 1400]) {
    await page.setViewport({width, height: 900});
    await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
    await sleep(300);
    // A busy machine draws the charts anew later.
    await until(`${what} in a window of ${width} pixels`, 10, () => page.evaluate(() => {
      const wide = document.documentElement.scrollWidth;
      return wide <= innerWidth || Promise.reject(`it is ${wide} pixels wide`);
    }));
    await no_complaints(page, `${what}, ${width} pixels, ${scheme}`);
  }
  await page.setViewport(before);
  await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: 'light'}]);
}

// No number runs over the edge of its tile, however small or large.
async function tiles_hold(page) {
  const draw = fs.readFileSync('paceline/records/pages/draw.js', 'utf8');
  const own = [/const short_value = [^]*?\n};/, /const tile_class = .*;/].map(one => draw.match(one)[0]).join('\n');
  const {short_value, tile_class} = new Function(`${own} return {short_value, tile_class};`)();
  const texts = [0, 0.0001089, -0.0001089, 0.0010894, 0.98765, 12.3456, 99999.4, -123456, 1e-12, 3e38].map(short_value).map(text => [text, tile_class(text)]);
  const over = await page.evaluate(all => {
    const tile = document.querySelector('.tiles dd');
    const before = tile.textContent;
    const was = tile.className;
    const wide = all.filter(([text, look]) => {
      tile.textContent = text;
      tile.className = look;
      return tile.scrollWidth > tile.clientWidth;
    });
    tile.textContent = before;
    tile.className = was;
    return wide;
  }, texts);
  assert.deepEqual(over, [], 'these run over the edge of a tile');
}

async function no_complaints(page, what) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => window.axe.run(document));
  const lines = found.violations.map(one => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')}`);
  assert.deepEqual(lines, [], `axe finds something on ${what}`);
}

async function pictures(browser, url, hashes) {
  if (!shots) return;
  fs.mkdirSync(shots, {recursive: true});
  for (const scheme of ['light', 'dark']) for (const width of [1400, 400]) {
    const page = await browser.newPage();
    await page.setViewport({width, height: 900});
    await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
    await page.goto(url);
    for (const [name, hash] of Object.entries(hashes)) {
      await page.evaluate(value => { location.hash = value; }, hash);
      await sleep(3000);
      await page.screenshot({path: `${shots}/${name}-${width}-${scheme}.png`, fullPage: true});
    }
    await page.close();
  }
}

function ask(address, options) {
  return new Promise((done, failed) => {
    const request = http.request({host: '127.0.0.1', port: address.port, path: '/', ...options}, reply => {
      let body = '';
      reply.on('data', bytes => { body += bytes; });
      reply.on('end', () => done({status: reply.statusCode, body}));
    });
    request.on('error', failed);
    request.end(options.body);
  });
}

// Bytes as they are.
function raw(address, bytes) {
  return new Promise(done => {
    const socket = net.connect(address.port, '127.0.0.1', () => socket.write(bytes));
    let reply = '';
    socket.on('data', part => { reply += part; });
    socket.on('error', () => done(reply));
    socket.on('close', () => done(reply));
  });
}

async function strangers(address, token) {
  const bearer = {Authorization: `Bearer ${token}`};
  assert.equal((await ask(address, {})).status, 401, 'without the token');
  assert.equal((await ask(address, {headers: {Authorization: 'Bearer 0123456789abcdef'}})).status, 401, 'with another token');
  assert.equal((await ask(address, {path: '/metrics'})).status, 401, 'the metrics of all runs');
  assert.equal((await ask(address, {headers: {...bearer, Host: 'rebound.example:80'}})).status, 421, 'a foreign host');
  assert.equal((await ask(address, {headers: {...bearer, Origin: 'https://evil.example'}})).status, 403, 'a foreign page');
  assert.equal((await ask(address, {method: 'POST', path: '/api/stop?run=x', headers: bearer})).status, 403, 'stop without the job\u2019s token');
  assert.equal((await ask(address, {path: '/../../etc/passwd', headers: bearer})).status, 404);
  assert.equal((await ask(address, {path: '/api/events?part=run&run=..%2F..%2Fetc', headers: {...bearer}, method: 'HEAD'})).status, 200);
  assert.equal((await ask(address, {headers: {...bearer, 'X-Long': 'a'.repeat(40000)}})).status, 413, 'too large');
  assert.match(await raw(address, 'GARBAGE\r\n\r\n'), /^HTTP\/1.1 400 /);
  assert.match(await raw(address, 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'), /^HTTP\/1.1 400 /);
  // More connections than there may be: those beyond are told so, and afterwards all is as before.
  const idle = await Promise.all(Array.from({length: 140}, () => new Promise(done => {
    const socket = net.connect(address.port, '127.0.0.1', () => done(socket));
    socket.on('error', () => done(socket));
  })));
  const refused = await raw(address, `GET / HTTP/1.1\r\nHost: 127.0.0.1:${address.port}\r\nConnection: close\r\n\r\n`);
  assert.match(refused, /^HTTP\/1.1 503 /, 'too many');
  for (const socket of idle) socket.destroy();
  await until('room again', 5, async () => (await ask(address, {headers: bearer})).status === 200);
}

// Several seeds of each policy: a line and a color for the policy, and each run beside the one of its own seed.
async function seeds(page) {
  const small = {cwd: folder, stdio: 'ignore'};
  execFileSync(program, ['compare', job('seeds'), '--virtual', '--seeds', '2', '--policies', 'bsp,asp', '--set', 'runs_dir=seeds', '--set', 'epochs=0.2'], small);
  const [compared] = fs.readdirSync(`${folder}/seeds`).filter(name => name.endsWith('-compare'));
  await page.goto(`file://${folder}/seeds/${compared}/report.html`);
  await page.waitForSelector('.many');
  const rows = await page.$$eval('.many tbody tr', list => list.map(row => [row.cells[0].textContent.trim(), row.cells[0].className]));
  assert.deepEqual(rows.map(row => row[0]), ['bsp', 'asp', 'bsp, seed 1', 'asp, seed 1', 'bsp, seed 2', 'asp, seed 2']);
  assert.deepEqual(rows.slice(2).map(row => row[1]), ['key policy s0', 'key policy s1', 'key policy s0', 'key policy s1']);
  const done = await page.$$eval('.lanes path.done', paths => paths.some(path => path.getAttribute('d') !== ''));
  assert.ok(done, 'under asp a fast device is done before the slow one');
  const column = await page.$$eval('.many', ([, table]) => {
    const at = [...table.tHead.rows[0].cells].findIndex(cell => cell.textContent === 'accuracy vs bsp (points)');
    return [...table.tBodies[0].rows].map(row => row.cells[at].textContent);
  });
  assert.deepEqual(column.map(text => text === '\u2013'), [true, false, true, false], column.join());
  const source = ['draw', 'curves'].map(name => fs.readFileSync(`paceline/records/pages/${name}.js`, 'utf8')).join('\n');
  const curve = await page.evaluate(`(() => { ${source}\nreturn mean_curve([[[0, 1], [2, 3], [5, 3]], [[1, 4], [3, 6]]]); })()`);
  assert.deepEqual(curve, {points: [[1, 3], [2, 4], [3, 4.5]], band: [[1, 2, 4], [2, 3, 5], [3, 3, 6]]});
  const words = await page.evaluate(`(() => { ${source}\nreturn [[123400, 123450], [5000.1, 5000.12], [0, 0.5, 1]].map(at => tick_labels(at, plain)); })()`);
  assert.deepEqual(words, [['123,400', '123,450'], ['5,000.10', '5,000.12'], ['0', '0.5', '1']], 'no tick is rounded');
  await holds_everywhere(page, 'a comparison of several seeds');
}

// The link over the navigation leaves the address as it is. Who is not signed in any more is told what to do.
async function skip_and_sign_out(browser, url) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.goto(`${url}#/run/none`);
  await until('the address without the token', 5, () => page.url() === `${new URL(url).origin}/#/run/none`);
  await page.evaluate(() => { location.hash = '#/'; });
  await page.waitForSelector('.run a');
  await tab_to(page, '.skip');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'page');
  assert.ok(!page.url().includes('#page'), page.url());
  await page.deleteCookie(...await page.cookies());
  await page.evaluate(() => { location.hash = '#/run/none'; });
  await until('the words of a refusal', 10, async () => /not signed in/.test(await text_of(page, '#line')));
  await context.close();
}

async function main() {
  // The first run, and pages that stand open through all that happens to it.
  const first = start(['train', job('one-slow')]);
  cleanups.push(() => first.kill('SIGKILL'));
  await until('the run begins', 60, () => runs().length === 1);
  const [slow] = runs();
  const ui = start(['ui', `${folder}/runs`, '--listen', '127.0.0.1:0']);
  const url = await until('the address', 10, () => ui.text.match(/http:\S+/)?.[0]);
  const address = new URL(url);
  const token = address.searchParams.get('token');
  const browser = await puppeteer.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu']});
  cleanups.push(() => browser.close());
  const page = await browser.newPage();
  const errors = [];
  // What the server refuses, the dialogs show.
  page.on('pageerror', error => errors.push(error.message));
  page.on('console', message => { if (message.type() === 'error' && !/ERR_CONNECTION|net::|403 \(Forbidden\)|409 \(Conflict\)/.test(message.text())) errors.push(message.text()); });
  const began = Date.now();
  // By a link on a page of another site, such as a chat's.
  await page.goto(`data:text/html,<a href="${url}">the runs</a>`);
  await page.click('a');
  await page.waitForSelector('.run a');
  assert.ok(!page.url().includes('token'), 'the token leaves the address');
  await skip_and_sign_out(browser, url);
  assert.equal(await text_of(page, '.run .state'), 'training');
  await page.click('.run a');
  const sentence = await until('the slow one by its name', 10 - (Date.now() - began) / 1000, async () => {
    const text = await text_of(page, '#verdict');
    return /w3 takes [\d.]+ times as long/.test(text) && text;
  });
  console.log(`found after ${((Date.now() - began) / 1000).toFixed(1)} s: ${sentence}`);
  await until('lanes of four devices', 5, async () => await page.$$eval('.moving svg > g > text:first-child title', list => list.map(one => one.textContent).join()) === 'w0,w1,w2,w3');
  await holds_everywhere(page, 'a run');
  await page.evaluate(() => { window.never_reloaded = true; });

  // A worker dies.
  process.kill(child_pid(first.pid, 'worker', 'w1'), 'SIGKILL');
  await until('the kill on the page', 10, async () => /w1\s*left/.test((await page.$$eval('tbody tr', rows => rows.map(row => [...row.cells].map(cell => cell.textContent).join(' ')).join('\n'))).replace(/\n/g, ' ')));
  await strangers(address, token);

  // The coordinator dies, and comes back.
  const updates = async () => Number((await text_of(page, '.tiles')).match(/Updates([\d,]+)/)?.[1].replace(/,/g, '') ?? 0);
  const before = await updates();
  process.kill(child_pid(first.pid, 'coordinator'), 'SIGKILL');
  await until('another attempt', 30, async () => /attempt 2/.test(await text_of(page, '.tiles')));
  console.log(`followed the coordinator\u2019s death at update ${before}`);
  // A server dies, and the attempt goes on.
  await until('the second attempt trains', 30, async () => await updates() > before);
  const with_server = await updates();
  process.kill(child_pid(first.pid, 'server', '0'), 'SIGKILL');
  await until('updates after the death of a server', 30, async () => await updates() > with_server + 3);
  assert.ok(/attempt 2/.test(await text_of(page, '.tiles')), 'the attempt went on');
  // The launcher dies with all of it, and the run is resumed.
  process.kill(first.pid, 'SIGKILL');
  await until('the run is lost', 60, async () => await text_of(page, '.state') === 'lost');
  const again = start(['train', '--resume', `${folder}/runs/${slow}`]);
  cleanups.push(() => again.kill('SIGKILL'));
  await until('it trains again', 60, async () => await text_of(page, '.state') === 'training' && /attempt 3/.test(await text_of(page, '.tiles')));
  assert.ok(await page.evaluate(() => window.never_reloaded), 'the page was never reloaded');

  // Evaluated out of turn from the page, by the keyboard alone.
  const job_token = fs.readFileSync(`${folder}/runs/${slow}/token`, 'utf8').trim();
  await tab_to(page, '.ask-evaluate');
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog.evaluate[open]');
  await page.keyboard.type(job_token);
  await page.keyboard.press('Enter');
  // The new attempt is on the page a moment before it trains.
  const answer = await until('the evaluation', 30, async () => {
    const text = await text_of(page, 'dialog.evaluate [role=status]');
    if (/does not train now|no new version/.test(text)) await page.keyboard.press('Enter');
    return /Version \d+ is measured now|evaluation is under way|measured already/.test(text) ? text : Promise.reject(text);
  });
  console.log(`asked: ${answer}`);
  await page.keyboard.press('Escape');

  // Stopped from the page: first with a wrong token.
  await page.click('.ask-stop');
  await page.waitForSelector('dialog.stop[open]');
  await holds_everywhere(page, 'the dialog');
  await page.type('#stop-token', 'wrongwrongwrongwrong');
  await page.click('dialog.stop .danger');
  await until('the refusal', 5, async () => /not the token/.test(await text_of(page, 'dialog.stop')));
  await page.$eval('#stop-token', node => { node.value = ''; });
  await page.type('#stop-token', job_token);
  await page.click('dialog.stop .danger');
  await until('the run stops', 20, async () => await text_of(page, '.state') === 'stopped');
  const doing = () => page.$$eval('[aria-label=Devices] tbody tr', rows => rows.map(row => row.cells[1].textContent));
  await until('no device works any more', 20, async () => !(await doing()).some(one => /computing|waiting|joining/.test(one)));
  assert.ok((await doing()).includes('ended'), (await doing()).join(', '));
  await tiles_hold(page);
  await again.ended;
  assert.match(again.text, /report: /);

  // Compared with another one, which trains with the pages that it brings itself, and with metrics.
  const second = start(['train', job('other', '[sync]\npolicy = "asp"\n[monitor]\nlisten = "127.0.0.1:0"\n'), '--ui']);
  cleanups.push(() => second.kill('SIGKILL'));
  const own_url = await until('its own address', 30, () => second.text.match(/watch: (http:\S+)/)?.[1]);
  await until('a second run', 60, () => runs().length === 2);
  const own = await browser.newPage();
  await own.goto(own_url);
  await until('the page of --ui', 15, async () => await text_of(own, '.state') === 'training');
  await own.close();
  await page.evaluate(() => { location.hash = '#/'; });
  await until('both in the list', 10, async () => (await page.$$('.run')).length === 2);
  await holds_everywhere(page, 'the list');
  await filtered_and_sorted(page);
  // What [monitor] serves, scraped as Prometheus does: without a token, while it trains.
  const monitor = listening_child(second.pid, '--metrics-only');
  const scraped = await ask({port: monitor}, {path: '/metrics'});
  assert.equal(scraped.status, 200);
  assert.match(scraped.body, /^paceline_commits_total [1-9]/m);
  assert.match((await ask({port: monitor}, {path: '/healthz'})).body, /training; update \d+ was made [\d.]+ s ago/);
  assert.equal((await ask({port: monitor}, {})).status, 404, 'it has no pages');
  for (const box of await page.$$('.run input')) await box.click();
  await page.click('button.main');
  await until('both in the comparison', 10, async () => /bsp.*stopped/.test(await text_of(page, 'tbody')) && /asp.*training/.test(await text_of(page, 'tbody')));
  await page.click('input[name=axis] + *, .switch label:nth-of-type(2)');
  await holds_everywhere(page, 'the comparison');
  const ids = runs();
  await pictures(browser, url, {list: '#/', run: `#/run/${ids.find(id => id !== slow)}`, stopped: `#/run/${slow}`, compare: `#/compare/${ids.join('/')}`});

  // The finished report is a page of the same kind.
  await page.goto(`file://${folder}/runs/${slow}/report.html`);
  await page.waitForSelector('.tiles');
  assert.match(await text_of(page, '.about'), /gpt-byte.*w0 to w2.*30 ms.*paceline train/s);
  assert.match(await text_of(page, 'main'), /Where the time went/);
  await holds_everywhere(page, 'the report');
  await seeds(page);
  await page.goto(new URL('/', url).href);
  await page.waitForSelector('.run');

  // A journal whose bytes make no sense is a line on the page.
  fs.mkdirSync(`${folder}/runs/damaged`);
  fs.copyFileSync(`${folder}/runs/${slow}/job.toml`, `${folder}/runs/damaged/job.toml`);
  const bytes = fs.readFileSync(`${folder}/runs/${slow}/journal.sqlite`);
  bytes.fill(0xff, 5000);
  fs.writeFileSync(`${folder}/runs/damaged/journal.sqlite`, bytes);
  await page.evaluate(() => { location.hash = '#/run/damaged'; });
  await until('a line about the damage', 10, async () => (await text_of(page, '.trouble')).length > 20);
  console.log(`damaged: ${await text_of(page, '.trouble')}`);
  assert.equal(ui.exitCode, null, 'the server still runs');
  assert.deepEqual(errors, [], 'the browser complained');
  second.kill('SIGTERM');
  await second.ended;
  ui.kill('SIGTERM');
  assert.equal(await ui.ended, 0);
}

try {
  await main();
  console.log('all of it holds');
} catch (error) {
  console.error(error);
  for (const child of children) console.error(child.spawnargs.join(' '), '\n', child.text.slice(-1500));
  process.exitCode = 1;
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup();
  for (const child of children) child.kill('SIGKILL');
  fs.rmSync(folder, {recursive: true, force: true, maxRetries: 5});
}
