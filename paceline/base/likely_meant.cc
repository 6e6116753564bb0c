#include "paceline/base/likely_meant.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace paceline {

namespace {

constexpr std::size_t kMostChanges = 2;

// Levenshtein's distance.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> likely_meant(const std::string& word, const std::set<std::string>& known) {
  const auto closest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  if (closest == known.end()) return std::nullopt;
  // At most half of the word may change, because otherwise nothing of a two-letter word would be left.
  const std::size_t most =
      std::clamp<std::size_t>(std::min(word.size(), closest->size()) / 2, 1, kMostChanges);
  if (edit_distance(word, *closest) > most) return std::nullopt;
  return *closest;
}

}  // namespace paceline
