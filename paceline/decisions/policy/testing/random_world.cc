#include "paceline/decisions/policy/testing/random_world.h"

#include <algorithm>
#include <chrono>

#include "paceline/base/overloaded.h"

namespace paceline::policy::testing {

namespace {

using std::chrono::milliseconds;

Duration cut(Duration duration, Duration grain) { return duration / grain * grain; }

}  // namespace

std::string to_string(const WorldFact& fact) {
  static constexpr const char* kNames[] = {"join", "leave", "ready", "complete", "ring"};
  std::string text = fmt::format("{} {}", to_seconds(fact.now), kNames[static_cast<int>(fact.what)]);
  if (fact.what == WorldFact::What::kComplete) return text + fmt::format(" {}", fact.version);
  if (fact.what == WorldFact::What::kRing) return text;
  text += fmt::format(" {}", fact.replica);
  if (fact.what == WorldFact::What::kReady) text += fmt::format(" on {}", fact.version);
  return text;
}

void tell(SyncPolicy& policy, const WorldFact& fact, Orders& orders) {
  orders.clear();
  switch (fact.what) {
    case WorldFact::What::kJoin:
      return policy.joined(fact.now, {fact.replica, fact.clock}, orders);
    case WorldFact::What::kLeave:
      return policy.left(fact.now, {fact.replica}, orders);
    case WorldFact::What::kReady:
      return policy.ready(fact.now, {fact.replica, fact.clock, fact.version, 1, fact.compute, fact.pulled},
                          orders);
    case WorldFact::What::kComplete:
      if (policy.hears_of_completion()) policy.completed(fact.now, {fact.version}, orders);
      return;
    case WorldFact::What::kRing:
      return policy.timer(fact.now, orders);
  }
}

RandomWorld::RandomWorld(std::uint64_t seed, bool even)
    : rng_(seed),
      grain_(even ? Duration(std::chrono::seconds(1)) : Duration(1)),
      span_(random_ms(2000)),
      global_(cut(span_ * static_cast<std::int64_t>(1 + rng_.below(4)) / 4, grain_)),
      back_(rng_.below(2) == 0 ? Duration::zero() : random_ms(2000)),
      first_(1 + rng_.below(6)) {}

WorldFact RandomWorld::next() {
  if (first_ > 0 || live_.empty()) {
    first_ -= first_ > 0 ? 1 : 0;
    return join();
  }
  if (rng_.below(50) == 0) return join();
  if (rng_.below(50) == 0) return leave();
  Running* next = nullptr;
  for (Running& one : live_) {
    if (one.computing && (next == nullptr || one.due < next->due)) next = &one;
  }
  const Time ready_at = next == nullptr ? Time::max() : next->due;
  const Time complete_at = completions_.empty() ? Time::max() : completions_.front();
  const Time ring_at = wake_.value_or(Time::max());
  if (ring_at <= std::min(ready_at, complete_at)) {
    now_ = std::max(now_, ring_at + (rng_.below(4) == 0 ? milliseconds(3) : milliseconds(0)));
    wake_.reset();
    return {.what = WorldFact::What::kRing, .now = now_};
  }
  if (complete_at <= ready_at) {
    now_ = std::max(now_, complete_at);
    completions_.erase(completions_.begin());
    completed_ = completed_.next();
    return {.what = WorldFact::What::kComplete, .now = now_, .version = completed_};
  }
  return ready(*next);
}

WorldFact RandomWorld::join() {
  ReplicaId id(next_id_);
  if (!gone_.empty() && rng_.below(2) == 0) {
    id = gone_.back();
    gone_.pop_back();
  } else {
    ++next_id_;
  }
  Clock slowest = live_.empty() ? Clock(0) : live_.front().clock;
  for (const Running& one : live_) slowest = std::min(slowest, one.clock);
  live_.push_back({.id = id, .clock = slowest, .usual = random_ms(4000) + grain_});
  return {.what = WorldFact::What::kJoin, .now = now_, .replica = id, .clock = slowest};
}

WorldFact RandomWorld::leave() {
  const std::size_t index = rng_.below(live_.size());
  const ReplicaId id = live_[index].id;
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  gone_.push_back(id);
  return {.what = WorldFact::What::kLeave, .now = now_, .replica = id};
}

WorldFact RandomWorld::ready(Running& one) {
  now_ = std::max(now_, one.due);
  one.computing = false;
  one.clock = one.clock.next();
  // The weights were those of the release, or newer ones.
  const auto newer = static_cast<std::uint64_t>(latest_ - one.released_on);
  Version base = one.released_on;
  for (std::uint64_t i = rng_.below(3) == 0 ? rng_.below(newer + 1) : 0; i > 0; --i) base = base.next();
  return {.what = WorldFact::What::kReady,
          .now = now_,
          .replica = one.id,
          .clock = one.clock,
          .version = base,
          .compute = now_ - one.released_at,
          .pulled = one.pulled_at - one.released_at};
}

void RandomWorld::follow(const std::vector<Order>& orders) {
  for (const Order& order : orders) {
    std::visit(Overloaded{
                   [&](const Commit& commit) { see(commit); },
                   [&](const Release& release) { see(release); },
                   [&](const WakeAt& wake) { wake_ = wake.at; },
                   [](const Discard&) {},
               },
               order);
  }
}

void RandomWorld::see(const Commit& commit) {
  latest_ = commit.version;
  const Duration reduce =
      cut((span_ - global_) * static_cast<std::int64_t>(commit.members.size()) / 3, grain_);
  last_completion_ = std::max(now_ + reduce, last_completion_) + global_;
  if (rng_.below(3) == 0) last_completion_ += random_ms(300);
  completions_.push_back(last_completion_);
  last_return_ = std::max(now_ + reduce, last_return_) + back_;
}

void RandomWorld::see(const Release& release) {
  Running& one = *std::find_if(live_.begin(), live_.end(),
                               [&](const Running& running) { return running.id == release.replica; });
  one.computing = true;
  one.released_on = release.version;
  one.released_at = now_;
  one.pulled_at = back_ == Duration::zero() ? now_ : std::max(now_, last_return_);
  // A link of its own that is slow.
  if (one.pulled_at > now_ && rng_.below(8) == 0) one.pulled_at += random_ms(3000);
  // A hiccup now and then, or nothing at all.
  one.due = one.pulled_at + (rng_.below(10) == 0 ? random_ms(20'000) : one.usual + random_ms(300));
}

Duration RandomWorld::random_ms(std::uint64_t below) {
  const std::uint64_t ms = rng_.below(below);
  return cut(milliseconds(ms) + Duration(rng_.below(1'000'000)), grain_);
}

}  // namespace paceline::policy::testing
