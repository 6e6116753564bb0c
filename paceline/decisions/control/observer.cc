#include "paceline/decisions/control/observer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/base/overloaded.h"

namespace paceline::control {

namespace {
using Complaint = std::optional<std::string>;
}

Observer::Observer(policy::Bounds bounds, std::int64_t dataset_size, std::int64_t total_samples,
                   const std::optional<ControllerState>& start)
    : bounds_(bounds), dataset_size_(dataset_size), total_samples_(total_samples) {
  if (bounds.quota) supersteps_.emplace();
  if (!start) return;
  version_ = start->version;
  total_samples_ = start->ledger.end.value_or(total_samples_);
  std::int64_t from = 0;
  for (const auto& [begin, end] : start->ledger.open) {
    if (begin > from) done_.emplace(from, begin);
    from = end;
  }
  if (start->ledger.next > from) done_.emplace(from, start->ledger.next);
}

Complaint Observer::see(const Fact& fact) {
  Complaint complaint;
  if (reservations_)
    complaint = reservations_->settle([this](const Lease& lease) { return any_done(lease); });
  Complaint of_fact = take_in(fact);
  return complaint ? complaint : of_fact;
}

Complaint Observer::take_in(const Fact& fact) {
  return std::visit(Overloaded{
                        [&](const ReplicaJoined& joined) -> Complaint {
                          see_joined(joined.replica);
                          return {};
                        },
                        [&](const ReplicaLeft& left) -> Complaint {
                          leave(left.replica, Doing::kGone);
                          if (left.least_batch && reservations_) reservations_->end_reservations();
                          return {};
                        },
                        [&](const ReplicaReady& ready) { return see_ready(ready); },
                        [&](const TimerRang&) -> Complaint { return {}; },
                        [&](const CommitComplete&) -> Complaint { return {}; },
                        [&](const DeviceJoined&) -> Complaint { return {}; },
                        [&](const DeviceLeft&) -> Complaint { return {}; },
                        [&](const DeviceOutOfMemory&) -> Complaint { return {}; },
                        [&](const LinkMeasured&) -> Complaint { return {}; },
                        [&](const PlanSearched&) -> Complaint { return {}; },
                        [&](const StopAsked&) -> Complaint {
                          stopped_ = true;
                          return {};
                        },
                    },
                    fact.what);
}

Complaint Observer::see(const Order& order) {
  return std::visit(Overloaded{
                        [&](const CommitRecord& commit) { return see_commit(commit); },
                        [&](const Release& release) { return see_release(release); },
                        [&](const Park& park) -> Complaint {
                          leave(park.replica, Doing::kParked);
                          return {};
                        },
                        [&](const Discard& discard) { return see_discard(discard); },
                        [&](const Finish&) { return see_finish(); },
                        [](const WakeAt&) -> Complaint { return {}; },
                        [](const SearchPlan&) -> Complaint { return {}; },
                        [](const PlanAdopted&) -> Complaint { return {}; },
                        [](const NoPlan&) -> Complaint { return {}; },
                        [](const BatchDone&) -> Complaint { return {}; },
                    },
                    order);
}

void Observer::see_joined(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  leave(replica, Doing::kGone);
  replicas_[index] = {.doing = Doing::kWaiting};
}

Complaint Observer::see_ready(const ReplicaReady& fact) {
  Seen* seen = find(fact.replica);
  if (seen == nullptr || seen->doing != Doing::kComputing)
    return fmt::format("replica {} is ready and was not released", fact.replica);
  if (fact.data_end) {
    if (Complaint complaint = end_at(*fact.data_end)) return complaint;
  }
  if (seen->lease.size() == 0) {
    seen->doing = Doing::kWaiting;  // the replica has computed nothing
    return {};
  }
  seen->doing = Doing::kFinished;
  seen->base = fact.base;
  count(*seen, fact.clock);
  const std::int64_t gap = fact.clock - counted_clocks_.begin()->first;
  largest_gap_ = std::max(largest_gap_, gap);
  if (bounds_.gap && gap > *bounds_.gap) {
    return fmt::format("replica {} is {} iterations ahead of the slowest; the policy promised {}",
                       fact.replica, gap, *bounds_.gap);
  }
  return supersteps_ ? see_finished_in_superstep(fact.replica) : std::nullopt;
}

Complaint Observer::see_finished_in_superstep(ReplicaId replica) {
  const std::int64_t finished = supersteps_->ready(replica);
  if (finished > *bounds_.quota) {
    return fmt::format("replica {} finished {} iterations since all were ready twice; the policy promised {}",
                       replica, finished, *bounds_.quota);
  }
  return {};
}

Complaint Observer::see_commit(const CommitRecord& commit) {
  if (commit.version != version_.next())
    return fmt::format("commit {} follows commit {}", commit.version, version_);
  version_ = commit.version;
  std::int64_t samples = 0;
  for (const CommitMember& member : commit.members) {
    if (Complaint complaint = see_member(commit, member)) return complaint;
    samples += member.lease.size();
  }
  if (samples != commit.samples)
    return fmt::format("commit {} says {} samples, not {}", version_, commit.samples, samples);
  if (supersteps_) supersteps_->committed(commit.members.size());
  return {};
}

Complaint Observer::see_member(const CommitRecord& commit, const CommitMember& member) {
  Seen* seen = find(member.replica);
  if (seen == nullptr || seen->doing != Doing::kFinished || seen->clock != member.clock ||
      !(seen->lease == member.lease)) {
    return fmt::format("commit {} takes iteration {} of replica {}, which has no such gradient",
                       commit.version, member.clock, member.replica);
  }
  seen->doing = Doing::kWaiting;
  if (reservations_) reservations_->unleased(member.replica);
  const std::int64_t staleness = commit.version - seen->base - 1;
  largest_staleness_ = std::max(largest_staleness_, staleness);
  if (bounds_.version_staleness && staleness > *bounds_.version_staleness) {
    return fmt::format("commit {} has staleness {}; the policy promised {}", commit.version, staleness,
                       *bounds_.version_staleness);
  }
  return mark_done(member.lease);
}

Complaint Observer::see_release(const Release& release) {
  Seen* seen = find(release.replica);
  if (seen == nullptr) return fmt::format("replica {} is released and is not here", release.replica);
  if (seen->doing != Doing::kWaiting && seen->doing != Doing::kParked) {
    return fmt::format("replica {} is released while it does not wait", release.replica);
  }
  if (release.clock <= seen->clock) {
    return fmt::format("replica {} is asked for iteration {} and has done {}", release.replica, release.clock,
                       seen->clock);
  }
  if (release.version > version_)
    return fmt::format("replica {} is sent to version {}", release.replica, release.version);
  if (supersteps_ && !seen->counted) supersteps_->enter(release.replica);
  seen->doing = Doing::kComputing;
  seen->lease = release.lease;
  count(*seen, Clock(release.clock.value() - 1));
  return reservations_ || !release.ahead.empty() ? see_ahead(release) : std::nullopt;
}

Complaint Observer::see_ahead(const Release& release) {
  if (!reservations_) {
    // Nothing was reserved before, so only the leases in flight need to be known.
    reservations_.emplace(dataset_size_, total_samples_);
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      const Seen& seen = replicas_[i];
      const ReplicaId replica(static_cast<std::int32_t>(i));
      if (replica != release.replica && (seen.doing == Doing::kComputing || seen.doing == Doing::kFinished))
        reservations_->leased(replica, seen.lease);
    }
  }
  return reservations_->released(release);
}

Complaint Observer::see_discard(const Discard& discard) {
  const auto index = static_cast<std::size_t>(discard.replica.value());
  Seen* seen = index < replicas_.size() ? &replicas_[index] : nullptr;
  const bool known = seen != nullptr && seen->clock == discard.clock;
  if (known && seen->doing == Doing::kFinished) {
    seen->doing = Doing::kWaiting;
    if (reservations_) reservations_->unleased(discard.replica);
  } else if (!known || !std::exchange(seen->left_a_gradient, false)) {
    return fmt::format("iteration {} of replica {} is discarded, which has no such gradient", discard.clock,
                       discard.replica);
  }
  return {};
}

Complaint Observer::see_finish() {
  const bool all = done_.size() == 1 && done_.begin()->first == 0 && done_.begin()->second == total_samples_;
  if (!stopped_ && !all) return "the run ends and not every sample was committed";
  return {};
}

// A sample behind the end is leased to nobody any more.
Complaint Observer::end_at(std::int64_t total) {
  if (total == total_samples_) return {};
  if (total_samples_ != kUnknownTotal || (!done_.empty() && done_.rbegin()->second > total))
    return fmt::format("the data end at sample {}, and others are committed or known", total);
  total_samples_ = total;
  for (Seen& seen : replicas_) {
    const Lease left = before(total, seen.lease, dataset_size_);
    if (seen.doing == Doing::kFinished && !(left == seen.lease))
      return fmt::format("the data end at sample {}, and a replica has finished samples behind it", total);
    seen.lease = left;
  }
  if (reservations_) reservations_->end_at(total);
  return {};
}

bool Observer::any_done(const Lease& lease) const {
  const std::int64_t start = lease.epoch * dataset_size_;
  bool any = false;
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    const auto after = done_.upper_bound(start + begin);
    any |= (after != done_.begin() && std::prev(after)->second > start + begin) ||
           (after != done_.end() && after->first < start + end);
  });
  return any;
}

Complaint Observer::mark_done(const Lease& lease) {
  const std::int64_t start = lease.epoch * dataset_size_;
  Complaint complaint;
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    if (!complaint && !mark_done(start + begin, start + end))
      complaint = in_words(lease) + " are committed twice";
  });
  return complaint;
}

bool Observer::mark_done(std::int64_t begin, std::int64_t end) {
  const auto after = done_.upper_bound(begin);
  const auto before = after == done_.begin() ? done_.end() : std::prev(after);
  if ((before != done_.end() && before->second > begin) || (after != done_.end() && after->first < end))
    return false;
  const bool touches_before = before != done_.end() && before->second == begin;
  const bool touches_after = after != done_.end() && after->first == end;
  const std::int64_t until = touches_after ? after->second : end;
  if (touches_before) before->second = until;
  // A change of the map ends its iterators: nothing after these two lines uses them.
  if (touches_after) done_.erase(after);
  if (!touches_before) done_.emplace(begin, until);
  return true;
}

Observer::Seen* Observer::find(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size() || replicas_[index].doing == Doing::kGone) return nullptr;
  return &replicas_[index];
}

void Observer::leave(ReplicaId replica, Doing to) {
  Seen* seen = find(replica);
  if (seen == nullptr) return;
  uncount(*seen);
  seen->left_a_gradient = seen->doing == Doing::kFinished;
  seen->doing = to;
  if (reservations_) reservations_->left(replica);
  if (supersteps_) supersteps_->leave(replica);
}

void Observer::count(Seen& seen, Clock clock) {
  if (seen.counted && seen.clock == clock) return;
  uncount(seen);
  seen.clock = clock;
  seen.counted = true;
  ++counted_clocks_[clock];
}

void Observer::uncount(Seen& seen) {
  if (!std::exchange(seen.counted, false)) return;
  const auto counted = counted_clocks_.find(seen.clock);
  if (--counted->second == 0) counted_clocks_.erase(counted);
}

}  // namespace paceline::control
