#include "paceline/records/tables/text_table.h"

#include <algorithm>
#include <numeric>

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {

namespace {

using Cells = std::vector<std::string>;
using Widths = std::vector<std::size_t>;

Widths widths_of(const std::vector<Cells>& rows) {
  Widths widths(rows.front().size());
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  return widths;
}

bool is_to_the_left(std::size_t column, std::size_t count, bool words_last) {
  return column == 0 || (words_last && column + 1 == count);
}

std::string line_of(const Cells& row, const Widths& widths, bool words_last) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string pad(widths[i] - columns(row[i]), ' ');
    const bool to_the_left = is_to_the_left(i, row.size(), words_last);
    line += (i == 0 ? "" : "  ") + (to_the_left ? row[i] + pad : pad + row[i]);
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string rule_of(const Widths& widths) {
  const std::size_t width = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  return std::string(width, '-') + "\n";
}

std::string markdown_line(const Cells& row) {
  std::string line = "|";
  for (const std::string& cell : row) line += " " + absl::StrReplaceAll(cell, {{"|", "\\|"}}) + " |";
  return line + "\n";
}

}  // namespace

void TextTable::add(Cells cells) {
  PACELINE_CHECK(cells.size() == rows_.front().size(), "a row of {} cells", cells.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  const Widths widths = widths_of(rows_);
  const bool words_last = last_ == LastColumn::kWords;
  std::string text = line_of(rows_.front(), widths, words_last) + rule_of(widths);
  for (auto row = rows_.begin() + 1; row != rows_.end(); ++row) text += line_of(*row, widths, words_last);
  return text;
}

bool TextTable::is_left(std::size_t column) const {
  return is_to_the_left(column, rows_.front().size(), last_ == LastColumn::kWords);
}

std::string TextTable::markdown() const {
  const std::size_t count = rows_.front().size();
  std::string text = markdown_line(rows_.front()) + "|";
  for (std::size_t i = 0; i < count; ++i) text += is_left(i) ? "---|" : "---:|";
  text += "\n";
  for (auto row = rows_.begin() + 1; row != rows_.end(); ++row) text += markdown_line(*row);
  return text;
}

}  // namespace paceline::report
