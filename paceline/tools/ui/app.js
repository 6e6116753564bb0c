// Which page is shown, and the stream of events that feeds it.

const line = text_node(document.getElementById('line'));
const page_place = document.getElementById('page');
let source = null;
let shown_page = null;

function page_of(hash) {
  const [kind, ...rest] = hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  if (kind === 'run' && rest.length) return run_page(rest.join('/'));
  if (kind === 'compare' && rest.length) return compare_page(rest);
  return list_page();
}

// A browser has few connections to a server. A page that nobody sees keeps none of them.
function stop_listening() {
  source?.close();
  source = null;
}

function listen(page) {
  stop_listening();
  if (document.hidden) return;
  const own = source = new EventSource(page.address);
  own.onopen = () => line('');
  // The browser comes again by itself, but not where it was refused.
  own.onerror = () => {
    if (source !== own) return;
    line(kLost);
    if (own.readyState === EventSource.CLOSED) ask_why(page, own);
  };
  for (const [name, act] of Object.entries(page.on)) own.addEventListener(name, event => act(JSON.parse(event.data)));
}

const kLost = 'Connection lost; trying again\u2026';

// A stream of events does not say why it was refused; the same request without a stream does.
async function ask_why(page, own) {
  let words = kLost;
  const asked = new AbortController();
  try {
    const reply = await fetch(page.address, {cache: 'no-store', signal: asked.signal});
    if (reply.status === 401) {
      if (source === own) line('You are not signed in here. Open the address that \u201cpaceline ui\u201d printed.');
      return;
    }
    if (!reply.ok) words = `The server refuses this page (${reply.status}: ${(await reply.text()).trim()}); trying again\u2026`;
  } catch {
    // Nobody answers.
  } finally {
    asked.abort();
  }
  if (source !== own) return;
  line(words);
  setTimeout(() => { if (source === own) listen(page); }, 2000);
}

function go() {
  for (const chart of [...all_charts]) chart.forget();
  hide_tooltip();
  shown_page = page_of(location.hash);
  document.title = `${shown_page.title} \u00b7 Paceline`;
  document.getElementById('crumb').textContent = shown_page.title === 'Runs' ? '' : shown_page.title;
  page_place.replaceChildren(shown_page.node);
  listen(shown_page);
}

addEventListener('hashchange', () => { go(); page_place.focus(); });
// The token is in a cookie by now, and has no business in the address or the history.
if (location.search) history.replaceState(null, '', `/${location.hash}`);
document.addEventListener('visibilitychange', () => document.hidden ? stop_listening() : listen(shown_page));
// The address names the page that is shown, so the link does not change it.
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  page_place.focus();
});
go();
