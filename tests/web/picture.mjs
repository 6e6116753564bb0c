// A picture of the upper part of a page, run by ./dev picture: picture.mjs PAGE.html PICTURE.png
import {pathToFileURL} from 'node:url';
import puppeteer from 'puppeteer-core';

const [html, png] = process.argv.slice(2);
const browser = await puppeteer.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars']});
const page = await browser.newPage();
await page.setViewport({width: 1200, height: 1500});
await page.goto(pathToFileURL(html).href);
await page.waitForSelector('.picture');
await new Promise(done => setTimeout(done, 500));
await page.screenshot({path: png});
await browser.close();
