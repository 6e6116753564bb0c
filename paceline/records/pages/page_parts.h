// The texts of the HTML report, as compiled in from report.html, report.css, the *.js files beside this
// file and uPlot (embed.cmake writes their definitions). Used by html.cc only.
#pragma once

#include <string_view>

namespace paceline::report {

std::string_view html_page();
std::string_view html_style();
std::string_view html_script();

}  // namespace paceline::report
