// The report that a person opens in a browser: one self-contained file, no network. Its page, style and
// script are beside this file (report.html, report.css, *.js) and are compiled in. Names and reasons come
// from other machines: they travel as JSON data only, and the script shows them as text only.
//
// Input: documents of report_json. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "paceline/records/pages/json_values.h"

namespace paceline::report {

std::string render_report(const Json& run);
// One page for several policies, in the order given.
std::string render_comparison(const std::vector<Json>& runs);
// A page of tables, in the style of the report and without a script. `tables`: HTML (text_table.h).
std::string render_tables(const std::string& title, const std::string& tables);
// A section of such a page about the job and its settings. `about`: [[name, text]].
std::string about_section(const Json& about);
// Escapes a text for HTML.
std::string as_html(const std::string& text);

}  // namespace paceline::report
