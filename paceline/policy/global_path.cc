#include "paceline/policy/global_path.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::policy {

namespace {

constexpr double kSpanStep = 0.25;
// A span that is longer than usual by more than this share was held up by the commit before.
constexpr double kHeldUp = 0.05;
// Share of T_global by which groups are sent early.
constexpr double kEarly = 0.05;
// Spans are told apart up to so many members.
constexpr std::size_t kMostTold = 256;

void average(std::optional<double>& value, double now) {
  value = value ? *value + kSpanStep * (now - *value) : now;
}

}  // namespace

void GlobalPath::ordered(Version version, std::size_t members, Time now) {
  const Time start = idle() ? now : std::max(now + reduce(members), free_);
  free_ = (idle() ? start + reduce(members) : start) + global();
  under_way_.push_back({version, members, now, free_ - late_});
}

void GlobalPath::completed(Version version, Time now) {
  PACELINE_CHECK(!under_way_.empty() && under_way_.front().version == version,
                 "version {} is complete out of turn", version);
  const UnderWay commit = under_way_.front();
  under_way_.pop_front();
  learn(commit, now);
  last_completion_ = now;
  // What follows comes as much later, or earlier, as this one did.
  const Duration later = now - (commit.expected + late_);
  late_ += later;
  free_ += later;
}

void GlobalPath::learn(const UnderWay& commit, Time now) {
  const double took = to_seconds(now - commit.ordered);
  const std::size_t told = std::min(commit.members, kMostTold);
  if (commit.ordered >= last_completion_) {
    if (spans_.size() <= told) spans_.resize(told + 1);
    average(spans_[told], took);
    global_ = std::min(global_.value_or(took), took);
    return;
  }
  const double spacing = to_seconds(now - last_completion_);
  const std::optional<double> usual = span(commit.members);
  const bool held_up = !usual || took > (1 + kHeldUp) * *usual;
  if (held_up && global_) {
    average(global_, spacing);
  } else {
    global_ = std::min(global_.value_or(spacing), spacing);
  }
}

std::optional<double> GlobalPath::span(std::size_t members) const {
  const std::size_t told = std::min(members, kMostTold);
  for (std::size_t away = 0; away <= spans_.size() + told; ++away) {
    if (told >= away && told - away < spans_.size() && spans_[told - away]) return spans_[told - away];
    if (told + away < spans_.size() && spans_[told + away]) return spans_[told + away];
  }
  return std::nullopt;
}

Duration GlobalPath::reduce(std::size_t members) const {
  return from_seconds(std::max(0.0, span(members).value_or(0) - global_.value_or(0)));
}

std::optional<Time> GlobalPath::free_soon(std::size_t members) const {
  if (idle()) return last_completion_;
  if (!global_) return std::nullopt;
  return free_ - reduce(members) - from_seconds(kEarly * *global_);
}

Duration GlobalPath::queue(Time now) const {
  return idle() ? Duration::zero() : std::max(Duration::zero(), free_ - now);
}

}  // namespace paceline::policy
