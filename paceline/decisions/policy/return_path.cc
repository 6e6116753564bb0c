#include "paceline/decisions/policy/return_path.h"

#include <algorithm>
#include <cmath>

namespace paceline::policy {

namespace {

constexpr std::size_t kMostKept = 512;
// An end that differs by less than this share of T from what was expected changes nothing.
constexpr double kAsExpected = 0.05;

}  // namespace

void ReturnPath::expect(Commit& commit) {
  free_ = commit.expected = times_.end(commit.members, commit.ordered, free_);
}

void ReturnPath::ordered(Version version, std::size_t members, Time now) {
  if (commits_.empty()) first_ = version;
  commits_.push_back({.members = members, .ordered = now});
  expect(commits_.back());
  if (commits_.size() <= kMostKept) return;
  commits_.pop_front();
  first_ = first_.next();
  told_ -= std::min<std::size_t>(told_, 1);
}

void ReturnPath::arrived(Version version, Time at) {
  const std::int64_t place = version - first_;
  if (place < 0 || place >= std::ssize(commits_)) return;
  const auto index = static_cast<std::size_t>(place);
  Commit& commit = commits_[index];
  if (commit.ended && *commit.ended >= at) return;
  commit.ended = at;
  if (index > 0) learn(index - 1);
  learn(index);
  learn(index + 1);
  if (index + 1 < told_) return;
  told_ = index + 1;
  const double away = std::abs(to_seconds(at - commit.expected));
  if (away > kAsExpected * to_seconds(times_.each())) count_on_from(index);
}

// Learns from a commit that ended between its neighbours. Otherwise its members' own links were slow.
void ReturnPath::learn(std::size_t index) {
  if (index == 0 || index + 1 >= commits_.size() || commits_[index].learnt) return;
  const std::optional<Time> before = commits_[index - 1].ended, after = commits_[index + 1].ended;
  Commit& commit = commits_[index];
  if (!before || !commit.ended || !after || *before > *commit.ended || *commit.ended > *after) return;
  commit.learnt = true;
  times_.learn(commit.members, commit.ordered, *commit.ended, *before);
}

void ReturnPath::count_on_from(std::size_t index) {
  free_ = commits_[index].expected = *commits_[index].ended;
  for (std::size_t later = index + 1; later < commits_.size(); ++later) expect(commits_[later]);
}

Time ReturnPath::free_soon(std::size_t members) const {
  if (!times_.known()) return Time::min();
  return times_.send_at(members, free_);
}

}  // namespace paceline::policy
