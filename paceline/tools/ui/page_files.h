// The files of the pages, compiled in: index.html, *.css and *.js beside this file, some of report/, and
// uPlot. embed.cmake writes their definition.
#pragma once

#include <string_view>

namespace paceline::ui {

// Empty if there is no file of that name.
std::string_view page_file(std::string_view name);

}  // namespace paceline::ui
