// A table of text for a terminal or a Markdown file: a head, a rule, rows. The first column is left-aligned,
// numbers are right-aligned.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::report {

// The cell of an unknown value.
inline constexpr const char* kUnknownCell = "–";

class TextTable {
 public:
  enum class LastColumn { kNumbers, kWords };

  TextTable(std::vector<std::string> head, LastColumn last) : rows_{std::move(head)}, last_(last) {}

  // Requires: as many cells as the head has. Cells must be printable.
  void add(std::vector<std::string> cells);
  // Ends with a newline; no line ends with a blank.
  std::string text() const;
  // The same for a Markdown file.
  std::string markdown() const;

  // The head first.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  // Whether a column is aligned to the left.
  bool is_left(std::size_t column) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  LastColumn last_;
};

}  // namespace paceline::report
