// Making elements, writing numbers, and the tooltip. Text goes in as text nodes only, so that no worker's name and
// no reason can become markup.

const html = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  filled(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) node.setAttribute(key, value);
  node.append(...children.filter(child => child !== null));
  return node;
}

// Beyond eight of them the colors come again, each with another dash.
const dash_of = style => (style + Math.floor(style / 8)) % 8;
const known = value => value !== null && value !== undefined;
const fixed = (value, digits) =>
  value.toLocaleString('en-US', {minimumFractionDigits: digits, maximumFractionDigits: digits});
const or_dash = (value, text) => known(value) ? text(value) : '\u2013';
const count_text = value => fixed(value, 0);
const percent_text = (share, digits = 1) => `${fixed(100 * share, digits)}\u00a0%`;
// Up to four digits in a text that fits into a tile: 12.34, 0.00109, 1.09e-4.
const short_value = value => {
  const size = Math.abs(value);
  if (size !== 0 && Number.isFinite(value) && (size < 0.001 || size >= 100000)) return value.toExponential(2).replace('e+', 'e');
  return String(Number(value.toPrecision(size < 0.01 ? 3 : 4)));
};
// The class of a number in a tile: longer ones are in smaller letters.
const tile_class = text => text.length > 5 ? 'long' : '';
// Three or four digits that matter, whatever the size.
const plain = value => value.toLocaleString('en-US', {maximumSignificantDigits: Math.abs(value) >= 1000 ? 4 : 3});
const seconds_text = value => `${Math.abs(value) < 10 ? fixed(value, 2) : fixed(value, 1)}\u00a0s`;
const short_count = value => value >= 1e6 ? `${plain(value / 1e6)}M` : value >= 1e4 ? `${plain(value / 1e3)}k` : plain(value);

// A sentence begins with a capital, but a device keeps its name.
const capital = text => /^(the|nothing|devices|messages|stages|it|this|nobody|there|runs|show|version|an|reading)\b/.test(text) ? text[0].toUpperCase() + text.slice(1) : text;

function clipped_text(text, letters) {
  const all = [...text];
  return all.length > letters ? `${all.slice(0, letters - 1).join('')}\u2026` : text;
}

// A share as a tick of so wide a step, or exactly.
function share_format(value, exact, step = 0.01) {
  const whole = digits => Math.abs(step * 100 * 10 ** digits - Math.round(step * 100 * 10 ** digits)) < 1e-6;
  return percent_text(value, exact ? 2 : [0, 1, 2].find(whole) ?? 3);
}

// The words at ticks, no two alike: if the format rounds a number, all are written with the digits that they have.
function tick_labels(values, format) {
  const step = values.length > 1 ? values[1] - values[0] : 1;
  const labels = values.map(value => format(value, false, step));
  const shown = labels.filter(label => label !== '');
  const rounded = values.some((value, i) => Math.abs(Number(labels[i].replaceAll(',', '')) - value) > 1e-9 * Math.abs(value) && labels[i] !== '');
  if (new Set(shown).size === shown.length && !rounded) return labels;
  const digits = Array.from({length: 12}, (_, i) => i).find(count => values.every(value => Math.abs(value * 10 ** count - Math.round(value * 10 ** count)) < 1e-3));
  return values.map(value => fixed(value, digits ?? 12));
}

// Round numbers from `low` to `high`, about `wanted` of them.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) list.push(i * step + 0);  // never minus 0
  return list;
}

// A linear map of [low, high] to pixels.
const scale = (low, high, from, to) => value => from + (value - low) / (high - low || 1) * (to - from);

// The index of the first of an ascending list for which `beyond` holds; its length when there is none.
function first_index(list, beyond) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (beyond(list[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Keeps `holder` filled with draw(its width in pixels). Returns what to call when the data changed. Draws in the next
// frame: what is drawn sets the height, which the observer watches too.
function kept_drawn(holder, draw) {
  let width = 0;
  const redraw = () => { if (width > 0) holder.replaceChildren(draw(width)); };
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === width) return;
    width = now;
    requestAnimationFrame(redraw);
  }).observe(holder);
  return redraw;
}

const canvas = (width, height, label, ...children) =>
  svg('svg', {class: 'picture', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label}, ...children);

const tooltip = document.getElementById('tooltip');
function show_tooltip(event, lines) {
  tooltip.replaceChildren(...lines.map(line => html('div', {}, line)));
  tooltip.hidden = false;
  const room = 14;
  const left = event.clientX + room + tooltip.offsetWidth > innerWidth ? event.clientX - room - tooltip.offsetWidth
                                                                       : event.clientX + room;
  const top = Math.min(event.clientY + room, innerHeight - tooltip.offsetHeight - 4);
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}
const hide_tooltip = () => { tooltip.hidden = true; };

// The x of a pointer in the picture's own units, whatever it is scaled to.
function picture_point(event, picture) {
  const box = picture.getBoundingClientRect();
  const zoom = picture.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
}
