#include "paceline/records/stats/example_run.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/overloaded.h"
#include "paceline/base/rng.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/policy/policy_spec.h"

namespace paceline::report {

namespace {

class Example {
 public:
  Example(const ExampleJob& job, std::unique_ptr<policy::SyncPolicy> policy, control::RunListener& stats)
      : job_(job), stats_(stats), controller_(config_of(job), std::move(policy)) {}

  Time run() {
    for (std::size_t i = 0; i < job_.replicas.size(); ++i) {
      const ReplicaId id(static_cast<std::int32_t>(i));
      tell({Time{}, control::ReplicaJoined{id, job_.replicas[i].name, job_.batch}});
      if (const auto leaves = job_.replicas[i].leaves_at_s) {
        coming_.push(
            {Time(from_seconds(*leaves)), next_++, control::ReplicaLeft{id, job_.replicas[i].why_it_leaves}});
      }
    }
    while (!controller_.finished()) {
      PACELINE_CHECK(!coming_.empty(), "the example run is stuck");
      const Coming coming = coming_.top();
      coming_.pop();
      tell({coming.at, coming.what});
    }
    return now_;
  }

 private:
  struct Coming {
    Time at;
    std::int64_t order;
    decltype(control::Fact::what) what;
    bool operator<(const Coming& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  static control::ControllerConfig config_of(const ExampleJob& job) {
    control::ControllerConfig config;
    config.dataset_size = config.total_samples = job.samples;
    config.start_replicas = std::ssize(job.replicas);
    config.evaluate_every = job.evaluate_every;
    return config;
  }

  void tell(const control::Fact& fact) {
    now_ = fact.at;
    std::vector<control::Order> orders;
    // A replica that left may still have an iteration coming: the Controller refuses it, and the listener
    // does not see it.
    if (!controller_.handle(fact, orders).ok()) return;
    stats_.on_fact(fact);
    for (const control::Order& order : orders) {
      stats_.on_order(now_, order);
      obey(order);
    }
  }

  void obey(const control::Order& order) {
    std::visit(Overloaded{
                   [&](const control::Release& release) { compute(release); },
                   [&](const control::CommitRecord& commit) { learn(commit); },
                   [&](const control::WakeAt& wake) {
                     coming_.push({wake.at, next_++, control::TimerRang{}});
                   },
                   [](const auto&) {},
               },
               order);
  }

  void compute(const control::Release& release) {
    const double share = 1 + job_.jitter * (2 * random_.uniform() - 1);
    const Duration length = from_seconds(job_.replicas[release.replica.value()].iteration_s * share);
    coming_.push({now_ + length, next_++,
                  control::ReplicaReady{release.replica, release.clock, release.version, length,
                                        loss() + 0.2 * random_.uniform()}});
  }

  void learn(const control::CommitRecord& commit) {
    for (const control::CommitMember& member : commit.members) {
      const auto staleness = static_cast<double>(commit.version - member.base - 1);
      learned_ += static_cast<double>(member.lease.size()) / (1 + 0.04 * staleness);
    }
    if (!commit.keep_for_evaluation) return;
    const double accuracy = 0.95 - 0.85 * std::exp(-part_learned()) + 0.006 * (random_.uniform() - 0.5);
    stats_.on_evaluated({now_, commit.version, commit.committed_after(), loss(), accuracy});
  }

  double part_learned() const { return 6 * learned_ / static_cast<double>(job_.samples); }
  double loss() const { return 0.12 + 2.2 * std::exp(-part_learned()); }

  const ExampleJob& job_;
  control::RunListener& stats_;
  control::Controller controller_;
  std::priority_queue<Coming> coming_;
  std::int64_t next_ = 0;
  Rng random_{1};
  double learned_ = 0;
  Time now_;
};

class Gathering final : public policy::SyncPolicy {
 public:
  Gathering(std::size_t size, Duration longest_wait) : size_(size), longest_wait_(longest_wait) {}

  void joined(Time, const policy::Joined& fact, policy::Orders& orders) override {
    live_.insert(fact.replica);
    orders.release(fact.replica, {"joined"});
  }
  void left(Time, const policy::Left& fact, policy::Orders& orders) override {
    live_.erase(fact.replica);
    std::erase_if(open_, [&](const policy::Contribution& one) { return one.replica == fact.replica; });
    close_if_full(orders);
  }
  void ready(Time now, const policy::Ready& fact, policy::Orders& orders) override {
    if (open_.empty()) orders.wake_at(closes_at_ = now + longest_wait_);
    open_.push_back({fact.replica, fact.clock});
    close_if_full(orders);
  }
  void timer(Time now, policy::Orders& orders) override {
    if (!open_.empty() && now >= closes_at_)
      close(orders, {"timer: {} gradients have waited long enough", count()});
  }
  policy::Bounds bounds() const override { return {}; }

 private:
  std::int64_t count() const { return std::ssize(open_); }

  void close_if_full(policy::Orders& orders) {
    if (open_.empty()) return;
    if (open_.size() == live_.size()) return close(orders, {"everyone: all {} are ready", count()});
    if (open_.size() == size_) close(orders, {"full: {} gradients", count()});
  }

  void close(policy::Orders& orders, policy::Reason why) {
    std::sort(open_.begin(), open_.end());
    orders.commit({open_.begin(), open_.end()}, why);
    for (const policy::Contribution& member : std::exchange(open_, {})) {
      orders.release(member.replica, {"its group is committed"});
    }
  }

  const std::size_t size_;
  const Duration longest_wait_;
  std::set<ReplicaId> live_;
  std::vector<policy::Contribution> open_;
  Time closes_at_;
};

}  // namespace

ExampleJob uneven_four() {
  return {.replicas = {{.name = "w0", .iteration_s = 0.1},
                       {.name = "w1", .iteration_s = 0.1},
                       {.name = "w2", .iteration_s = 0.1},
                       {.name = "w3", .iteration_s = 0.3}}};
}

Time run_example(const ExampleJob& job, const std::string& policy, control::RunListener& stats) {
  return run_example(job, policy::make_policy(*policy::parse_policy(policy)), stats);
}

Time run_example(const ExampleJob& job, std::unique_ptr<policy::SyncPolicy> policy,
                 control::RunListener& stats) {
  return Example(job, std::move(policy), stats).run();
}

std::unique_ptr<policy::SyncPolicy> gathering(std::size_t size, double longest_wait_s) {
  return std::make_unique<Gathering>(size, from_seconds(longest_wait_s));
}

}  // namespace paceline::report
