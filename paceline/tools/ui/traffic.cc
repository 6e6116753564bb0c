#include "paceline/tools/ui/traffic.h"

#include <algorithm>
#include <optional>

namespace paceline::ui {

std::set<std::string> Traffic::gone(const std::vector<control::ProcessReport>& processes) {
  std::optional<Time> newest;
  const auto is_new = [this](const control::ProcessReport& one) {
    const auto before = reported_.find(one.process);
    return before == reported_.end() || before->second.at != one.at;
  };
  for (const control::ProcessReport& one : processes)
    if (is_new(one)) newest = std::max(newest.value_or(one.at), one.at);
  newest_ = newest.value_or(newest_);
  std::set<std::string> gone;
  for (const control::ProcessReport& one : processes) {
    const auto [found, first] = reported_.try_emplace(one.process, Reported{one.at, one.at});
    Reported& reported = found->second;
    if (!first && reported.at != one.at) reported = {one.at, newest_};
    // A run that was resumed may begin its clock at an earlier time.
    reported.newest = std::min(reported.newest, newest_);
    if (newest_ - reported.newest > kGone) gone.insert(one.process);
  }
  return gone;
}

void Traffic::look(const std::vector<control::ProcessReport>& processes) {
  memory_.clear();
  const std::set<std::string> gone = this->gone(processes);
  for (const control::ProcessReport& one : processes) {
    const bool is_gone = gone.contains(one.process);
    if (!is_gone) memory_.push_back({one.process, one.resident_bytes});
    for (const control::Sent& sent : one.sent) {
      const auto [found, fresh] =
          links_.try_emplace({one.process, sent.peer, sent.kind}, Counted{sent.bytes, one.at});
      Counted& counted = found->second;
      if (is_gone) counted.bytes_per_s = 0;
      if (fresh || one.at == counted.at) continue;
      // A run that was resumed may begin its clock at an earlier time.
      const double seconds = to_seconds(one.at - counted.at);
      const auto bytes = static_cast<double>(std::max<std::int64_t>(0, sent.bytes - counted.bytes));
      counted = {sent.bytes, one.at, seconds > 0 ? bytes / seconds : 0};
    }
  }
  std::stable_sort(memory_.begin(), memory_.end(),
                   [](const Memory& a, const Memory& b) { return a.resident_bytes > b.resident_bytes; });
}

std::vector<Traffic::Link> Traffic::links() const {
  std::vector<Link> all;
  for (const auto& [who, counted] : links_) {
    const auto& [from, to, kind] = who;
    all.push_back({from, to, kind, counted.bytes, counted.bytes_per_s});
  }
  std::stable_sort(all.begin(), all.end(), [](const Link& a, const Link& b) {
    return std::tie(a.bytes_per_s, a.bytes) > std::tie(b.bytes_per_s, b.bytes);
  });
  return all;
}

}  // namespace paceline::ui
