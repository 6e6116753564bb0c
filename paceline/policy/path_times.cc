#include "paceline/policy/path_times.h"

#include <algorithm>

namespace paceline::policy {

namespace {

constexpr double kStep = 0.25;
// A span that is longer than usual by more than this share was held up by the commit before.
constexpr double kHeldUp = 0.05;
// Spans are told apart up to this many members.
constexpr std::size_t kMostTold = 256;

void average(std::optional<double>& value, double now) {
  value = value ? *value + kStep * (now - *value) : now;
}

}  // namespace

void PathTimes::learn(std::size_t members, Time ordered, Time ended, Time before) {
  const double took = to_seconds(ended - ordered);
  const std::size_t told = std::min(members, kMostTold);
  if (ordered >= before) {
    if (spans_.size() <= told) spans_.resize(told + 1);
    average(spans_[told], took);
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
  const std::size_t told = std::min(members, kMostTold);
  for (std::size_t away = 0; away <= spans_.size() + told; ++away) {
    if (told >= away && told - away < spans_.size() && spans_[told - away]) return spans_[told - away];
    if (told + away < spans_.size() && spans_[told + away]) return spans_[told + away];
  }
  return std::nullopt;
}

Duration PathTimes::reduce(std::size_t members) const {
  return from_seconds(std::max(0.0, span(members).value_or(0) - each_.value_or(0)));
}

}  // namespace paceline::policy
