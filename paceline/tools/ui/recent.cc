#include "paceline/tools/ui/recent.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/overloaded.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::ui {

namespace {

// Commits closer together than this are one point of the rate.
constexpr Duration kStep = std::chrono::milliseconds(100);

std::optional<double> rate(std::int64_t samples, Duration time) {
  if (samples == 0 || time <= Duration::zero()) return std::nullopt;
  return static_cast<double>(samples) / to_seconds(time);
}

}  // namespace

Recent::Replica& Recent::replica(ReplicaId id) {
  const auto i = static_cast<std::size_t>(id.value());
  if (replicas_.size() <= i) replicas_.resize(i + 1);
  return replicas_[i];
}

void Recent::on_fact(const control::Fact& fact) {
  latest_ = std::max(latest_, fact.at);
  std::visit(Overloaded{
                 [&](const control::ReplicaJoined& joined) { replica(joined.replica).here = true; },
                 [&](const control::ReplicaLeft& gone) {
                   replica(gone.replica).here = false;
                   left(gone.why);
                 },
                 [&](const control::ReplicaReady& done) { ready(done.replica, done.compute - done.pulling); },
                 [](const auto&) {},
             },
             fact.what);
}

void Recent::on_order(Time at, const control::Order& order) {
  if (const auto* release = std::get_if<control::Release>(&order))
    replica(release->replica).samples = release->lease.size();
  if (const auto* record = std::get_if<control::CommitRecord>(&order)) commit(at, *record);
}

void Recent::ready(ReplicaId id, Duration compute) {
  Replica& one = replica(id);
  one.latest.push_back({one.samples, compute});
  if (one.latest.size() <= kLatestIterations) return;
  one.before.samples += one.latest.front().samples;
  one.before.compute += one.latest.front().compute;
  one.latest.pop_front();
}

void Recent::commit(Time at, const control::CommitRecord& record) {
  learning_rate_ = record.learning_rate;
  versions_.add({at, record.version.value()});
  if (committed_.size() < 2 || at - committed_[committed_.size() - 2].at >= kStep)
    committed_.push_back({at, record.committed_after()});
  else
    committed_.back() = {at, record.committed_after()};
  while (committed_.size() > 2 && committed_[1].at < at - kRateWindow) committed_.pop_front();
}

void Recent::on_side_work(const control::SideWork& work) {
  if (work.kind != control::SideWork::Kind::kUpdate) return;
  Server& server = servers_[work.server];
  ++server.count;
  server.time += work.took;
  server.latest.push_back({work.took, work.bytes});
  if (server.latest.size() > kLatestUpdates) server.latest.pop_front();
}

void Recent::left(const std::string& why) {
  std::string reason = report::without_numbers(why);
  if (left_.size() >= kMostReasons && !left_.contains(reason)) reason = "other";
  ++left_[reason];
}

Speed Recent::speed(ReplicaId id) const {
  const auto i = static_cast<std::size_t>(id.value());
  if (i >= replicas_.size()) return {};
  Iteration latest;
  for (const Iteration& one : replicas_[i].latest) {
    latest.samples += one.samples;
    latest.compute += one.compute;
  }
  return {rate(latest.samples, latest.compute),
          rate(replicas_[i].before.samples, replicas_[i].before.compute)};
}

std::optional<double> Recent::median_speed() const {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const auto now = speed(ReplicaId(static_cast<std::int32_t>(i))).now;
    if (replicas_[i].here && now) speeds.push_back(*now);
  }
  if (speeds.empty()) return std::nullopt;
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return *middle;
}

std::optional<double> Recent::samples_per_s(Time now) const {
  if (committed_.size() < 2) return std::nullopt;
  const Time until = std::max(now, committed_.back().at);
  // If nothing is committed any more, the rate falls.
  const Duration gap = committed_.back().at - committed_[committed_.size() - 2].at;
  const Duration window = std::max(kRateWindow, 2 * gap);  // wider if updates are far apart
  const auto first = std::find_if(committed_.begin(), committed_.end(),
                                  [&](const Committed& one) { return one.at >= until - window; });
  if (first == committed_.end()) return 0;
  const Time end = until - committed_.back().at > window / 10 ? until : committed_.back().at;
  const Committed& from = first + 1 == committed_.end() ? *(first - 1) : *first;
  return end > from.at ? rate(committed_.back().samples - from.samples, end - from.at).value_or(0) : 0;
}

std::map<std::int32_t, Recent::ServerUpdates> Recent::updates() const {
  std::map<std::int32_t, ServerUpdates> all;
  for (const auto& [number, server] : servers_) {
    Duration time{0};
    std::int64_t bytes = 0;
    for (const Update& one : server.latest) {
      time += one.took;
      bytes += one.bytes;
    }
    const double seconds = to_seconds(time);
    all[number] = {.count = server.count,
                   .seconds = to_seconds(server.time),
                   .latest_s = seconds / static_cast<double>(server.latest.size()),
                   .gb_per_s = seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0};
  }
  return all;
}

std::optional<double> Recent::update_s() const {
  std::optional<double> slowest;
  for (const auto& [number, server] : updates()) slowest = std::max(slowest.value_or(0), server.latest_s);
  return slowest;
}

std::int64_t Recent::version_at(Time at) const {
  std::int64_t version = 0;
  for (const VersionPoint& point : versions_.points()) {
    if (point.at > at) break;
    version = point.version;
  }
  return version;
}

}  // namespace paceline::ui
