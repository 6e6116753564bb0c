#include "paceline/decisions/control/testing/little_cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"

namespace paceline::control::testing {

LittleCluster::LittleCluster(const ControllerConfig& config, const std::string& spec, std::uint64_t seed,
                             const std::optional<ControllerState>& start, std::vector<RunListener*> listeners)
    : LittleCluster(config, policy::make_policy(policy::parse_policy(spec).value()), seed, start,
                    std::move(listeners)) {}

LittleCluster::LittleCluster(const ControllerConfig& config, std::unique_ptr<policy::SyncPolicy> policy,
                             std::uint64_t seed, const std::optional<ControllerState>& start,
                             std::vector<RunListener*> listeners)
    : config_(config),
      whole_rounds_(policy->commits_whole_rounds()),
      rng_(seed),
      controller_(config, std::move(policy)),
      witnesses_({controller_.bounds(), config.dataset_size, config.total_samples, start},
                 std::move(listeners)),
      total_(config.total_samples) {
  if (!start) return;
  const absl::Status restored = controller_.restore(*start);
  PACELINE_CHECK(restored.ok(), "{}", restored.ToString());
  committed_ = controller_.committed_samples();
  least_batch_ = start->ledger.least.value_or(1);
}

ReplicaId LittleCluster::join(const std::string& name, std::int64_t batch, Duration interval, double jitter) {
  const ReplicaId id(next_id_++);
  Replica& replica = replicas_[id];
  replica.batch = batch;
  replica.interval = interval;
  replica.jitter = jitter;
  give({now_, ReplicaJoined{id, name, batch}});
  return id;
}

void LittleCluster::leave(ReplicaId replica, std::optional<std::int64_t> least_batch) {
  replicas_.erase(replica);
  least_batch_ = std::max(least_batch_, least_batch.value_or(1));
  give({now_, ReplicaLeft{replica, "told to", least_batch}});
}

void LittleCluster::stop() { give({now_, StopAsked{"told to"}}); }

bool LittleCluster::step() {
  const auto next = std::min_element(replicas_.begin(), replicas_.end(), [](const auto& a, const auto& b) {
    return a.second.due.value_or(Time::max()) < b.second.due.value_or(Time::max());
  });
  if (next == replicas_.end() || !next->second.due) return false;
  Replica& replica = next->second;
  now_ = *replica.due;
  replica.due.reset();
  ReplicaReady ready{next->first, replica.clock, replica.base, now_ - replica.released, 0.0};
  const std::int64_t end = replica.lease.epoch * config_.dataset_size + replica.lease.end;
  if (config_.total_samples == kUnknownTotal && end >= total_) ready.data_end = total_;
  give({now_, ready});
  return true;
}

std::vector<ReplicaId> LittleCluster::live() const {
  std::vector<ReplicaId> ids;
  for (const auto& [id, replica] : replicas_) ids.push_back(id);
  return ids;
}

void LittleCluster::give(const Fact& fact) {
  if (finished_) return;
  if (!leaves_foreseen(fact)) foreseen_.reset();
  std::vector<Order> orders;
  const absl::Status taken = controller_.handle(fact, orders);
  if (!taken.ok()) complain(taken.ToString());
  if (const auto complaint = witnesses_.record(fact, orders)) complain(*complaint);
  for (const Order& order : orders) {
    if (finished_) complain("an order after the end");
    follow(order);
  }
  const auto next = controller_.next_commit();
  if (foreseen_ && !next)
    complain("the last gradient is ready, and the commit that was foreseen did not come");
  if (foreseen_ && next && !(*foreseen_ == *next)) complain("another commit is foreseen than before");
  foreseen_ = next;
}

bool LittleCluster::leaves_foreseen(const Fact& fact) const {
  const auto* const ready = std::get_if<ReplicaReady>(&fact.what);
  return ready != nullptr && !ready->data_end && !ready->weight;
}

// A reason counts arrivals, and it is not foreseen.
void LittleCluster::see_foreseen(const CommitRecord& commit) {
  if (!foreseen_) return;
  CommitRecord expected = *std::exchange(foreseen_, std::nullopt);
  expected.why = commit.why;
  expected.keep_for_evaluation = commit.keep_for_evaluation;
  expected.checkpoint = commit.checkpoint;
  if (!(expected == commit)) complain("another commit comes than was foreseen");
  ++foreseen_commits_;
}

void LittleCluster::follow(const Order& order) {
  std::visit(Overloaded{
                 [&](const CommitRecord& commit) { see(commit); },
                 [&](const Release& release) {
                   releases_.push_back(release);
                   const auto found = replicas_.find(release.replica);
                   if (found == replicas_.end()) return complain("a release for nobody");
                   Replica& replica = found->second;
                   if (replica.due)
                     complain(fmt::format("replica {} is released while it computes", release.replica));
                   if (release.lease.size() < 1 || release.lease.size() > most_leased(replica))
                     complain("a lease of a wrong size");
                   if (static_cast<std::int64_t>(release.ahead.size()) > config_.ahead)
                     complain("more is reserved than was asked for");
                   unparks_ += replica.parked ? 1 : 0;
                   replica.parked = false;
                   replica.clock = release.clock;
                   replica.base = release.version;
                   replica.lease = release.lease;
                   replica.released = now_;
                   const double factor = 1.0 + replica.jitter * (2.0 * rng_.uniform() - 1.0);
                   replica.due = now_ + from_seconds(to_seconds(replica.interval) * factor);
                 },
                 [&](const Discard&) { ++discards_; },
                 [&](const Park& park) {
                   replicas_.at(park.replica).parked = true;
                   ++parks_;
                 },
                 [](const WakeAt&) {},
                 [&](const Finish&) { finished_ = true; },
                 [&](const SearchPlan&) {},
                 [&](const PlanAdopted&) {},
                 [&](const NoPlan&) {},
                 [&](const BatchDone&) {},
             },
             order);
}

void LittleCluster::see(const CommitRecord& commit) {
  see_foreseen(commit);
  log_.push_back(commit);
  std::int64_t nominal = 0;
  for (const auto& [id, replica] : replicas_) nominal += std::min(replica.batch, config_.dataset_size);
  double shares = 0;
  std::int64_t samples = 0;
  for (const CommitMember& member : commit.members) {
    shares += member.share;
    samples += member.lease.size();
    const auto staleness = static_cast<double>(commit.version - member.base - 1);
    const double weight = static_cast<double>(member.lease.size()) / static_cast<double>(commit.samples) /
                          (1.0 + config_.staleness_damping * staleness);
    if (std::abs(member.weight - weight) > 1e-12) complain("a wrong weight");
  }
  if (std::abs(shares - 1.0) > 1e-12) complain("shares do not add up to 1");
  if (commit.samples != samples) complain("a wrong number of samples");
  if (commit.nominal != nominal) complain("a wrong nominal batch");
  const double fraction = static_cast<double>(samples) / static_cast<double>(nominal);
  const bool whole = whole_rounds_ || replicas_.size() == 1;
  const double expected = config_.scale == CommitScale::kSamples && !whole ? fraction : 1.0;
  if (commit.fraction != expected || (expected > 1.0 && !config_.uneven_data && least_batch_ == 1))
    complain("a wrong fraction");
  if (commit.committed_before != committed_) complain("a wrong number of samples before");
  const auto reached = [&](std::int64_t every) {
    bool any = committed_ + samples == total_;
    for (std::int64_t mark = every; every > 0 && mark <= total_; mark += every) {
      any = any || (committed_ < mark && mark <= committed_ + samples);
    }
    return any;
  };
  if (commit.keep_for_evaluation != reached(config_.evaluate_every))
    complain("an evaluation too many or too few");
  if (commit.checkpoint.has_value() != reached(config_.checkpoint_every))
    complain("a checkpoint too many or too few");
  if (commit.checkpoint && commit.checkpoint->version != commit.version)
    complain("a checkpoint of another version");
  committed_ += samples;
}

// With uneven data one may get what all together would, and a third more if that was reserved before.
std::int64_t LittleCluster::most_leased(const Replica& replica) const {
  const std::int64_t rest = least_batch_ - 1;  // too few samples for a lease may be left beside this one
  if (!config_.uneven_data) return std::max(replica.batch, least_batch_) + rest;
  std::int64_t all = 0;
  for (const auto& [id, one] : replicas_) all += one.batch;
  return std::max(config_.ahead > 0 ? all * 4 / 3 : all, least_batch_) + rest;
}

void LittleCluster::complain(const std::string& what) {
  if (broken_.empty())
    broken_ = fmt::format("at {} s, after {} commits: {}", to_seconds(now_), log_.size(), what);
}

void SampleLog::add(const CommitRecord& commit) {
  for (const CommitMember& member : commit.members) {
    member.lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at)
        ++times_.at(static_cast<std::size_t>(member.lease.epoch * dataset_size_ + at));
    });
  }
}

bool SampleLog::all_once() const {
  return std::all_of(times_.begin(), times_.end(), [](int times) { return times == 1; });
}

}  // namespace paceline::control::testing
