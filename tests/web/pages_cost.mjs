// What a page costs: bytes a second, frame times, and how long the first picture of a run takes. Run by ./dev bench
// pages, with the address of `paceline ui` and the name of a run.
import puppeteer from 'puppeteer-core';

const [url, run, seconds = '20'] = process.argv.slice(2);
const browser = await puppeteer.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu']});
const page = await browser.newPage();
await page.setViewport({width: 1400, height: 900});
const client = await page.createCDPSession();
await client.send('Network.enable');
let bytes = 0;
client.on('Network.dataReceived', event => { bytes += event.dataLength; });
await page.goto(url);
const began = Date.now();
await page.evaluate(id => { location.hash = `#/run/${encodeURIComponent(id)}`; }, run);
await page.waitForFunction(() => document.querySelectorAll('.moving svg').length > 0, {timeout: 120000});
console.log(`first picture after ${((Date.now() - began) / 1000).toFixed(2)} s, ${(bytes / 1e3).toFixed(0)} kB`);
await new Promise(done => setTimeout(done, 3000));
const before = bytes;
const frames = await page.evaluate(ms => new Promise(done => {
  const times = [];
  let last = performance.now();
  const end = last + ms;
  const frame = now => {
    times.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(frame);
    else done(times);
  };
  requestAnimationFrame(frame);
}), 1000 * Number(seconds));
frames.sort((a, b) => a - b);
const part = share => frames[Math.min(frames.length - 1, Math.floor(share * frames.length))].toFixed(0);
console.log(`${((bytes - before) / 1e3 / Number(seconds)).toFixed(1)} kB/s; frames: median ${part(0.5)} ms, 99 % within ${part(0.99)} ms, longest ${part(1)} ms`);
await browser.close();
