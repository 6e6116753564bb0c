// Which page is shown, and the stream of events that feeds it.

const line = text_node(document.getElementById('line'));
const page_place = document.getElementById('page');
let source = null;

function page_of(hash) {
  const [kind, ...rest] = hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  if (kind === 'run' && rest.length) return run_page(rest.join('/'));
  if (kind === 'compare' && rest.length) return compare_page(rest);
  return list_page();
}

function listen(page) {
  source?.close();
  source = new EventSource(page.address);
  source.onopen = () => line('');
  // The browser comes again by itself, but not where it was refused.
  source.onerror = () => {
    line('Connection lost; trying again\u2026');
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (source.readyState === EventSource.CLOSED) listen(page); }, 2000);
  };
  for (const [name, act] of Object.entries(page.on)) source.addEventListener(name, event => act(JSON.parse(event.data)));
}

function go() {
  if (location.hash === '#page') return;
  for (const chart of [...all_charts]) chart.forget();
  hide_tooltip();
  const page = page_of(location.hash);
  document.title = `${page.title} \u00b7 Paceline`;
  document.getElementById('crumb').textContent = page.title === 'Runs' ? '' : page.title;
  page_place.replaceChildren(page.node);
  listen(page);
}

addEventListener('hashchange', () => { go(); page_place.focus(); });
go();
