#include "paceline/decisions/policy/path_times.h"

#include <algorithm>
#include <limits>

namespace paceline::policy {

namespace {

constexpr double kStep = 0.25;
// A span that is longer than usual by more than this share was held up by the commit before.
constexpr double kHeldUp = 0.05;
// Spans are told apart up to this many members.
constexpr std::size_t kMostTold = 256;

// A span counts as at most so many times the usual one: the whole run may have been stopped in it.
double most(double usual) {
  constexpr double kMost = 4;
  return usual > 0 ? kMost * usual : std::numeric_limits<double>::infinity();
}

void average(std::optional<double>& value, double now) {
  value = value ? *value + kStep * (now - *value) : now;
}

}  // namespace

void PathTimes::learn(std::size_t members, Time ordered, Time ended, Time before) {
  const double took = to_seconds(ended - ordered);
  const std::size_t told = std::min(members, kMostTold);
  if (ordered >= before) {
    if (spans_.size() <= told) spans_.resize(told + 1);
    const bool first = !spans_[told];
    average(spans_[told], first ? took : std::min(took, most(*spans_[told])));
    if (first) find_nearest();
    each_ = std::min(each_.value_or(took), took);
    return;
  }
  const double spacing = to_seconds(ended - before);
  const std::optional<double> usual = span(members);
  const bool held_up = !usual || took > (1 + kHeldUp) * *usual;
  if (held_up && each_) {
    average(each_, spacing);
  } else {
    each_ = std::min(each_.value_or(spacing), spacing);
  }
}

std::optional<double> PathTimes::span(std::size_t members) const {
  if (nearest_.empty()) return std::nullopt;
  return spans_[nearest_[std::min(members, kMostTold)]];
}

void PathTimes::find_nearest() {
  std::vector<std::size_t> seen;
  for (std::size_t members = 0; members < spans_.size(); ++members) {
    if (spans_[members]) seen.push_back(members);
  }
  nearest_.resize(kMostTold + 1);
  std::size_t at = 0;
  for (std::size_t members = 0; members <= kMostTold; ++members) {
    // The smaller one is taken if two are equally near.
    while (at + 1 < seen.size() && seen[at + 1] <= members) ++at;
    nearest_[members] = seen[at];
    if (at + 1 == seen.size() || seen[at] >= members) continue;
    if (seen[at + 1] - members < members - seen[at]) nearest_[members] = seen[at + 1];
  }
}

Duration PathTimes::reduce(std::size_t members) const {
  return from_seconds(std::max(0.0, span(members).value_or(0) - each_.value_or(0)));
}

}  // namespace paceline::policy
