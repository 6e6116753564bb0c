#include "paceline/records/pages/html.h"

#include <string_view>

#include <fmt/format.h>

#include "paceline/records/pages/page_parts.h"
#include "paceline/records/pages/page_size.h"

namespace paceline::report {

namespace {

// JSON that can stand in a script element: without "<" it contains neither "</script" nor "<!--". "<" occurs
// only inside JSON strings, where \u003c means the same.
std::string embeddable(const Json& json) {
  std::string text;
  for (const char c : one_line(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string_view part(std::string_view slot, std::string_view data) {
  if (slot == "style") return html_style();
  if (slot == "script") return html_script();
  return data;
}

// Fills each "{{slot}}" of the page once: the filled-in text is not searched for slots.
std::string fill(std::string_view page, std::string_view data) {
  std::string text;
  for (std::size_t open = 0; (open = page.find("{{")) != std::string_view::npos;) {
    const std::size_t close = page.find("}}", open);
    text += page.substr(0, open);
    text += part(page.substr(open + 2, close - open - 2), data);
    page.remove_prefix(close + 2);
  }
  return text.append(page);
}

}  // namespace

std::string render_report(const Json& run) { return render_comparison(std::vector<Json>{run}); }

std::string render_comparison(const std::vector<Json>& runs) {
  return fill(html_page(), embeddable(sized_for_page(runs)));
}

std::string as_html(const std::string& text) {
  std::string html;
  for (const char one : text) {
    switch (one) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += one;
    }
  }
  return html;
}

std::string about_section(const Json& about) {
  std::string rows;
  for (const Json& one : about) {
    rows += fmt::format("<dt>{}</dt><dd>{}</dd>\n", as_html(one[0].get<std::string>()),
                        as_html(one[1].get<std::string>()));
  }
  return fmt::format(
      "<section><div class=\"title\"><h2>What was run</h2></div><dl class=\"about\">\n{}</dl></section>\n",
      rows);
}

std::string render_tables(const std::string& title, const std::string& tables) {
  return fmt::format(R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{0}</title>
<style>
{1}</style>
</head>
<body>
<main id="page"><header><h1>{0}</h1></header>
{2}</main>
</body>
</html>
)html",
                     as_html(title), html_style(), tables);
}

}  // namespace paceline::report
