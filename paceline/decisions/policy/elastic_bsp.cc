#include "paceline/decisions/policy/elastic_bsp.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::policy {

namespace {
constexpr std::int64_t kMeasurements = 2;
// No prediction lies further ahead (146 years), so that sums of times cannot overflow.
constexpr Duration kFurthest{std::int64_t{1} << 62};
}  // namespace

void ElasticBsp::joined(Time, const Joined& fact, Orders& orders) {
  replicas_[fact.replica] = {.clock = fact.clock};
  if (phase_ == Phase::kMeasure) {
    ++unmeasured_;
    orders.release(fact.replica, {"joined: is measured with the others"});
  } else {
    orders.release(fact.replica, {"joined between barriers: runs without a quota"});
  }
}

void ElasticBsp::left(Time now, const Left& fact, Orders& orders) {
  const auto found = replicas_.find(fact.replica);
  const Replica gone = found->second;
  replicas_.erase(found);
  if (gone.held) {
    --held_;
    orders.discard({fact.replica, gone.clock}, {"left before the barrier"});
  }
  if (replicas_.empty()) return start_measuring();
  if (phase_ == Phase::kRun) {
    if (gone.planned && !gone.held) --on_the_way_;
    return meet_if_all_held(orders);
  }
  if (gone.readies < kMeasurements) --unmeasured_;
  if (unmeasured_ == 0) start_run(now, orders);
}

void ElasticBsp::ready(Time now, const Ready& fact, Orders& orders) {
  Replica& mine = replicas_.at(fact.replica);
  learn(now, fact, mine);
  if (phase_ == Phase::kMeasure) {
    measure(fact.replica, mine, now, orders);
  } else {
    run(fact.replica, mine, now, orders);
  }
}

void ElasticBsp::learn(Time now, const Ready& fact, Replica& mine) const {
  const bool first = mine.interval == Duration::zero();
  mine.interval = average_ && !first ? mine.interval + (fact.compute - mine.interval) / 4 : fact.compute;
  mine.clock = fact.clock;
  mine.last_ready = now;
  ++mine.readies;
}

void ElasticBsp::measure(ReplicaId id, Replica& mine, Time now, Orders& orders) {
  if (mine.readies == kMeasurements) --unmeasured_;
  if (replicas_.size() == 1) return hold(mine, orders);
  orders.commit({{id, mine.clock}}, {"measuring: iteration {} since the barrier", mine.readies});
  if (unmeasured_ > 0) {
    mine.paused = mine.readies >= std::max(look_ahead_, kMeasurements);
    if (mine.paused) return;
    return orders.release(
        id, {"measuring: {} are still to be ready twice", static_cast<std::int64_t>(unmeasured_)});
  }
  start_run(now, orders);
  orders.release(id, {"planned: {} iterations to the barrier", mine.quota - mine.clock});
}

void ElasticBsp::run(ReplicaId id, Replica& mine, Time now, Orders& orders) {
  ++since_plan_;
  if (mine.planned) plan_again_if_late(now, mine);
  if (at_barrier(mine)) return hold(mine, orders);
  if (mine.planned) {
    orders.commit({{id, mine.clock}},
                  {"{} of {} iterations to the barrier", mine.clock - mine.start, mine.quota - mine.start});
    orders.release(id, {"{} more to the barrier", mine.quota - mine.clock});
  } else {
    orders.commit({{id, mine.clock}}, {"joined between barriers: commits alone"});
    orders.release(id, {"no quota: runs on while {} with one are not at the barrier",
                        static_cast<std::int64_t>(on_the_way_)});
  }
}

void ElasticBsp::start_measuring() {
  for (auto& [id, replica] : replicas_) {
    replica.readies = 0;
    replica.held = replica.paused = replica.planned = false;
  }
  phase_ = Phase::kMeasure;
  unmeasured_ = replicas_.size();
  on_the_way_ = held_ = 0;
}

void ElasticBsp::start_run(Time now, Orders& orders) {
  for (auto& [id, replica] : replicas_) {
    replica.planned = true;
    replica.start = replica.clock;
    if (replica.paused) replica.last_ready = now;  // its next iteration starts now
  }
  phase_ = Phase::kRun;
  on_the_way_ = replicas_.size();
  plan(Time::min(), nullptr);
  for (auto& [id, replica] : replicas_) {
    if (!std::exchange(replica.paused, false)) continue;
    orders.release(
        id, {"all are measured; planned: {} iterations to the barrier", replica.quota - replica.clock});
  }
}

void ElasticBsp::plan(Time earliest, const Replica* arrived) {
  const auto stays = [&](const Replica& replica) { return replica.held || &replica == arrived; };
  std::vector<EvenTimes> lists;
  for (const auto& [id, replica] : replicas_) {
    if (replica.planned) lists.push_back(predict(replica, earliest, stays(replica)));
  }
  const auto meeting = zip_line(lists);
  auto pick = meeting.picks.begin();
  for (auto& [id, replica] : replicas_) {
    if (!replica.planned) continue;
    const auto more = static_cast<std::int64_t>(*pick++) + (stays(replica) ? 0 : 1);
    replica.quota = Clock(replica.clock.value() + more);
    replica.step = step_of(replica);
    replica.expected = std::max(replica.last_ready + replica.step, earliest);
  }
  since_plan_ = 0;
  late_ = false;
}

EvenTimes ElasticBsp::predict(const Replica& replica, Time earliest, bool stays) const {
  const Duration step = step_of(replica);
  const std::int64_t allowed = look_ahead_ - (replica.clock - replica.start);
  if (replica.held) return {replica.last_ready, step, 1};
  if (stays) return {replica.last_ready, step, static_cast<std::size_t>(allowed + 1)};
  return {std::max(replica.last_ready + step, earliest), step, static_cast<std::size_t>(allowed)};
}

Duration ElasticBsp::step_of(const Replica& replica) const {
  return std::clamp(replica.interval, Duration(1), kFurthest / look_ahead_);
}

void ElasticBsp::plan_again_if_late(Time now, Replica& mine) {
  late_ = late_ || now - mine.expected > mine.step;
  mine.expected += mine.step;
  if (late_ && since_plan_ >= replicas_.size()) plan(now, &mine);
}

bool ElasticBsp::at_barrier(const Replica& mine) const {
  if (replicas_.size() == 1) return true;
  return mine.planned ? mine.clock >= mine.quota : on_the_way_ == 0;
}

void ElasticBsp::hold(Replica& mine, Orders& orders) {
  mine.held = true;
  ++held_;
  if (mine.planned) --on_the_way_;
  meet_if_all_held(orders);
}

void ElasticBsp::meet_if_all_held(Orders& orders) {
  if (held_ < replicas_.size()) return;
  absl::InlinedVector<Contribution, 1> members;
  for (const auto& [id, replica] : replicas_) members.push_back({id, replica.clock});
  orders.commit(std::move(members),
                {"the barrier: all {} live replicas are here", static_cast<std::int64_t>(held_)});
  for (const auto& [id, replica] : replicas_) orders.release(id, {"past the barrier: measuring"});
  start_measuring();
}

// ---- As it is written ----

absl::StatusOr<ElasticBspSpec> ElasticBspSpec::parse(const PolicyText& text) {
  // Its plan costs O(R log n) a fact.
  static constexpr std::int64_t kMostLookAhead = 10'000;
  static constexpr char kHow[] =
      "write elastic-bsp:R or elastic-bsp:R:average with R from 1 to 10000, for example elastic-bsp:15";
  const auto& parts = text.parts;
  if (parts.size() == 1) return ElasticBspSpec{};
  const bool average = parts.size() == 3 && parts[2] == "average";
  if (parts.size() != 2 && !average) return text.wrong(kHow);
  const auto look_ahead = iterations(parts[1]);
  if (!look_ahead || *look_ahead < 1 || *look_ahead > kMostLookAhead) return text.wrong(kHow);
  return ElasticBspSpec{*look_ahead, average};
}
std::vector<std::string> ElasticBspSpec::examples() {
  return {"elastic-bsp:1", "elastic-bsp:4", "elastic-bsp:4:average"};
}
std::string ElasticBspSpec::text() const {
  return fmt::format("{}:{}{}", kName, look_ahead, average ? ":average" : "");
}
std::unique_ptr<SyncPolicy> ElasticBspSpec::make() const {
  return std::make_unique<ElasticBsp>(look_ahead, average);
}

}  // namespace paceline::policy
