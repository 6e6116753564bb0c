#include "paceline/decisions/supervisor/leader_failover.h"

#include <algorithm>
#include <utility>

namespace paceline::supervisor {

namespace {

// kSilence: long enough that a coordinator that is started again does not count as gone. kPause: the interval
// of looks at the folder.
constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::seconds kPause{1};
// The time between one host's turn and the next one's.
constexpr std::chrono::seconds kTurn{2};

// A host that leads a run and is started again reads its data, or asks its program, before it listens. The others ask
// nobody, and are there first.
constexpr double kTimesAtFirst = 10;
constexpr double kMostAtFirst_s = 300;

std::chrono::duration<double> patience_of(HostRank host, double patience_s) {
  return std::chrono::duration<double>(patience_s) + host.value() * kTurn;
}

double patience_at_first_s(double patience_s) {
  return std::max(patience_s, std::min(kTimesAtFirst * patience_s, kMostAtFirst_s));
}

}  // namespace

double longest_s(HostRank host, double patience_s) { return 2 * patience_of(host, patience_s).count() + 60; }

LeaderFailover::LeaderFailover(HostRank host, double patience_s, std::string run, SteadyTime now)
    : host_(host),
      patience_after_(patience_of(host, patience_s)),
      patience_(patience_of(host, patience_at_first_s(patience_s))),
      run_(std::move(run)),
      heard_(now) {}

void LeaderFailover::heard(const std::string& run, SteadyTime now) {
  run_ = run;
  heard_ = now;
  patience_ = patience_after_;
}

bool LeaderFailover::wants_to_look(SteadyTime now) const {
  return !run_.empty() && now >= heard_ + kSilence && (!looked_ || now >= *looked_ + kPause);
}

LeaderFailover::Step LeaderFailover::look(const Seen& seen, SteadyTime now) {
  looked_ = now;
  if (!seen.leader) return {};
  const bool is_known = seen.leader->host == led_by_;
  const bool moved = is_known && seen.led && !led_at_.empty() && seen.leader->address != led_at_;
  if (is_known && led_at_.empty()) led_at_ = seen.leader->address;
  if (seen.leader->host != host_ && (!is_known || moved)) {
    led_by_ = seen.leader->host;
    led_at_ = seen.leader->address;
    heard_ = now;
    return Follow{*seen.leader};
  }
  if (seen.led) return {};
  if (seen.over) return Over{};
  if (now < heard_ + patience_) return {};
  heard_ = now;  // if it cannot lead, it tries again after the same time
  if (seen.leader->host == host_) return Lead{};
  return Lead{seen.leader->host};
}

}  // namespace paceline::supervisor
