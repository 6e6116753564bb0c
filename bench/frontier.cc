// How fast each policy is and how late its gradients are, over clusters of 2 to 128 replicas. The rate is
// that of committed gradients, as a share of ASP's on the same cluster. The delay d of a gradient is what was
// committed between the version that it was computed on and its own, in bulk rounds: Σ f over those commits.
// 0 is bulk synchronous; where nobody waits it is 1 − 1/N for lone updates, and 1 − k/N for groups of k.
// Beside it f·τ, the product of the means: the same number where all groups are alike, and larger where they
// are not.
//
//   frontier [--policies LIST] [--replicas LIST] [--seeds COUNT] [--only WORDS]
//       a table for each of the clusters below (whose name has these words)
//   frontier random [COUNT] [--policies LIST]
//       random clusters: is the first policy slower than others whose gradients are no later?
//   frontier stability [--policies LIST] [--replicas LIST]
//       up to which η/(1 − μ), in units of 1/λ, equal replicas (jitter 0.1) train a quadratic of curvature λ
//
// "N/4" in a policy is a quarter of the replicas. With stability, "+ahead" behind a policy: it looks ahead.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "bench/table.h"
#include "paceline/base/rng.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/testing/quadratic.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::bench {
namespace {

constexpr int kRounds = 300;  // iterations a replica
constexpr std::int64_t kFewest = 4000;

// The delay of every gradient after the first fifth of the run, and the rate since then.
class Delays final : public control::RunListener {
 public:
  explicit Delays(std::int64_t iterations) : warm_(iterations / 5) {}
  void on_fact(const control::Fact&) override {}
  void on_evaluated(const control::Evaluated&) override {}
  void on_order(Time at, const control::Order& order) override {
    const auto* commit = std::get_if<control::CommitRecord>(&order);
    if (commit == nullptr) return;
    const double before = moved_.back();
    members_ += static_cast<std::int64_t>(commit->members.size());
    if (members_ > warm_ && !since_) since_ = at;
    if (since_) {
      for (const control::CommitMember& member : commit->members) {
        const double delay = before - moved_[static_cast<std::size_t>(member.base.value())];
        delay_ += delay;
        square_ += delay * delay;
        staleness_ += static_cast<double>(commit->version - member.base - 1);
        gradients_ += 1;
      }
      share_ += commit->fraction;
      commits_ += 1;
      until_ = at;
    }
    moved_.push_back(before + commit->fraction);
  }
  double rate() const { return gradients_ / to_seconds(until_ - *since_); }
  double delay() const { return delay_ / gradients_; }
  double delay_rms() const { return std::sqrt(square_ / gradients_); }
  double product() const { return share_ / commits_ * staleness_ / gradients_; }

 private:
  const std::int64_t warm_;
  std::vector<double> moved_{0};  // moved_[v]: bulk rounds up to version v
  std::int64_t members_ = 0;
  std::optional<Time> since_;
  Time until_{};
  double gradients_ = 0, delay_ = 0, square_ = 0, staleness_ = 0, share_ = 0, commits_ = 0;
};

struct Point {
  double rate, delay, rms, product;
};

Point simulated(const sim::ClusterModel& cluster, const std::string& policy) {
  const auto replicas = static_cast<std::int64_t>(cluster.places.size());
  sim::Scenario scenario;
  scenario.cluster = cluster;
  scenario.iterations = std::max(kFewest, kRounds * replicas);
  Delays delays(scenario.iterations);
  sim::VirtualCluster run(cluster, sim::controller_config(scenario),
                          policy::make_policy(policy::parse_policy(policy).value()),
                          {.listeners = {&delays}, .stop_after_iterations = scenario.iterations});
  const absl::Status status = run.run_until_over();
  if (!status.ok()) fmt::print(stderr, "{}: {}\n", policy, std::string(status.message()));
  return {delays.rate(), delays.delay(), delays.delay_rms(), delays.product()};
}

std::string for_replicas(const std::string& policy, std::int64_t replicas) {
  std::string text = policy;
  for (const std::int64_t part : {2, 3, 4, 8})
    text = absl::StrReplaceAll(
        text, {{fmt::format("N/{}", part), std::to_string(std::max<std::int64_t>(1, replicas / part))}});
  return text;
}

// ---- The clusters ----

sim::PlaceModel place(double seconds, double jitter) {
  sim::PlaceModel one;
  one.compute_ms = 1000 * seconds;
  one.unevenness.jitter = jitter;
  return one;
}

struct Kind {
  const char* name;
  std::function<void(sim::ClusterModel&, std::int64_t replicas, Rng& rng)> fill;
};

void alike(sim::ClusterModel& cluster, std::int64_t replicas, double jitter) {
  for (std::int64_t i = 0; i < replicas; ++i) cluster.places.push_back(place(1, jitter));
}

// Devices of 1 to 4 s, evenly spread.
void mixed(sim::ClusterModel& cluster, std::int64_t replicas) {
  for (std::int64_t i = 0; i < replicas; ++i)
    cluster.places.push_back(
        place(1 + 3.0 * static_cast<double>(i) / static_cast<double>(replicas - 1), 0.05));
}

// Every replica is slowed down 1.5 to 4 times now and then.
void changing(sim::ClusterModel& cluster, Rng& rng) {
  for (std::size_t i = 0; i < cluster.places.size(); ++i) {
    double at = 0;
    while (at < 3000) {
      at += 30 + 200 * rng.uniform();
      const double until = at + 20 + 60 * rng.uniform();
      cluster.slowdowns.push_back({.device = static_cast<std::int64_t>(i),
                                   .at_s = at,
                                   .until_s = until,
                                   .factor = 1.5 + 2.5 * rng.uniform()});
      at = until;
    }
  }
}

// Updates of `bytes` through links and one server of these rates in Gb/s.
void network(sim::ClusterModel& cluster, std::int64_t bytes, double gbps, double server_gbps) {
  cluster.bytes = bytes;
  cluster.servers.gbps = server_gbps;
  for (sim::PlaceModel& one : cluster.places) one.link.gbps = gbps;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds{
      {"equal, jitter 0.05", [](auto& cluster, auto n, Rng&) { alike(cluster, n, 0.05); }},
      {"equal, jitter 0.1", [](auto& cluster, auto n, Rng&) { alike(cluster, n, 0.1); }},
      {"equal, jitter 0.3", [](auto& cluster, auto n, Rng&) { alike(cluster, n, 0.3); }},
      {"1 to 4 s", [](auto& cluster, auto n, Rng&) { mixed(cluster, n); }},
      {"half twice as slow",
       [](auto& cluster, auto n, Rng&) {
         for (std::int64_t i = 0; i < n; ++i) cluster.places.push_back(place(i < n / 2 ? 1 : 2.1, 0.05));
       }},
      {"one four times slower",
       [](auto& cluster, auto n, Rng&) {
         alike(cluster, n, 0.1);
         cluster.places.back().compute_ms = 4000;
       }},
      {"a tenth of iterations 2 to 5 times longer",
       [](auto& cluster, auto n, Rng&) {
         alike(cluster, n, 0.05);
         for (sim::PlaceModel& one : cluster.places) one.unevenness.slow_chance = 0.1;
       }},
      {"changing",
       [](auto& cluster, auto n, Rng& rng) {
         alike(cluster, n, 0.1);
         changing(cluster, rng);
       }},
      {"equal, jitter 0.1, an update takes 0.2 s at the server",
       [](auto& cluster, auto n, Rng&) {
         alike(cluster, n, 0.1);
         network(cluster, 25'000'000, 1, 1);
       }},
      {"1 to 4 s, an update takes 0.2 s at the server",
       [](auto& cluster, auto n, Rng&) {
         mixed(cluster, n);
         network(cluster, 25'000'000, 1, 1);
       }},
      {"equal, jitter 0.1, an update takes 0.02 s at the server",
       [](auto& cluster, auto n, Rng&) {
         alike(cluster, n, 0.1);
         network(cluster, 25'000'000, 10, 10);
       }},
  };
  return kKinds;
}

// ---- The tables ----

struct Mean {
  std::vector<double> values;
  double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  double error() const {
    double sum = 0;
    for (const double value : values) sum += (value - mean()) * (value - mean());
    const auto n = static_cast<double>(values.size());
    return n < 2 ? 0 : std::sqrt(sum / (n - 1) / n);
  }
};

void compare(const Kind& kind, const std::vector<std::string>& policies,
             const std::vector<std::int64_t>& sizes, int seeds) {
  fmt::print("\n{}\n\n| policy |", kind.name);
  for (const std::int64_t size : sizes) fmt::print(" N = {} |", size);
  fmt::print("\n|---|");
  for (std::size_t i = 0; i < sizes.size(); ++i) fmt::print("---|");
  fmt::print("\n");
  const auto cluster_of = [&](std::int64_t size, int seed) {
    sim::ClusterModel cluster;
    cluster.seed = static_cast<std::uint64_t>(seed);
    Rng rng(mix_seed({static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(size)}));
    kind.fill(cluster, size, rng);
    return cluster;
  };
  std::vector<std::vector<double>> asp;
  for (const std::int64_t size : sizes) {
    asp.emplace_back();
    for (int seed = 1; seed <= seeds; ++seed)
      asp.back().push_back(simulated(cluster_of(size, seed), "asp").rate);
  }
  for (const std::string& policy : policies) {
    fmt::print("| {} |", policy);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Mean rate, delay, product;
      for (int seed = 1; seed <= seeds; ++seed) {
        const Point point = simulated(cluster_of(sizes[i], seed), for_replicas(policy, sizes[i]));
        rate.values.push_back(point.rate / asp[i][static_cast<std::size_t>(seed - 1)]);
        delay.values.push_back(point.delay);
        product.values.push_back(point.product);
      }
      fmt::print(" {:.3f} ± {:.3f}, {:.2f} ± {:.2f} ({:.2f}) |", rate.mean(), rate.error(), delay.mean(),
                 delay.error(), product.mean());
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

sim::ClusterModel random_cluster(std::uint64_t seed) {
  Rng rng(mix_seed({seed, 0x66726f6e}));
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + rng.below(values.size()));
  };
  sim::ClusterModel cluster;
  cluster.seed = seed;
  const auto replicas = static_cast<std::int64_t>(one_of({2, 4, 8, 16, 32, 64}));
  const double jitter = one_of({0.02, 0.05, 0.1, 0.3});
  const double spread = one_of({1, 1, 2, 4});
  const double classes = one_of({2, 3, 1000});
  for (std::int64_t i = 0; i < replicas; ++i) {
    const double where = std::floor(rng.uniform() * classes) / (classes - 1);
    cluster.places.push_back(place(0.2 * (1 + (spread - 1) * std::min(1.0, where)), jitter));
  }
  if (rng.uniform() < 0.25) {
    for (sim::PlaceModel& one : cluster.places) one.unevenness.slow_chance = 0.1;
  }
  if (rng.uniform() < 0.25) changing(cluster, rng);
  if (rng.uniform() < 0.5) {
    network(cluster, static_cast<std::int64_t>(one_of({1, 5, 25, 100})) * 1'000'000, one_of({1, 10}),
            one_of({1, 10, 40}));
    cluster.servers.colocated = rng.uniform() < 0.3;
  }
  return cluster;
}

std::string to_text(const sim::ClusterModel& cluster) {
  double least = 1e9, most = 0;
  for (const sim::PlaceModel& one : cluster.places) {
    least = std::min(least, one.compute_ms);
    most = std::max(most, one.compute_ms);
  }
  std::string text = fmt::format("N = {}, {:.0f} to {:.0f} ms, jitter {}", cluster.places.size(), least, most,
                                 cluster.places[0].unevenness.jitter);
  if (cluster.places[0].unevenness.slow_chance > 0) text += ", transient";
  if (!cluster.slowdowns.empty()) text += ", changing";
  if (cluster.bytes > 0) {
    text += fmt::format(
        ", {} MB, links {} Gb/s, server {}", cluster.bytes / 1'000'000, cluster.places[0].link.gbps,
        cluster.servers.colocated ? "beside each" : fmt::format("{} Gb/s", cluster.servers.gbps));
  }
  return text;
}

// The first policy's rate over that of the fastest other one whose gradients are no later.
void random(int count, const std::vector<std::string>& policies) {
  constexpr double kSame = 0.005;  // bulk rounds
  std::vector<double> shares;
  std::vector<double> of_best;
  for (int seed = 1; seed <= count; ++seed) {
    const sim::ClusterModel cluster = random_cluster(static_cast<std::uint64_t>(seed));
    const auto replicas = static_cast<std::int64_t>(cluster.places.size());
    std::string line;
    double best = 0, fastest = 0;
    std::string who = "nobody";
    Point ours{};
    for (const std::string& policy : policies) {
      const Point point = simulated(cluster, for_replicas(policy, replicas));
      if (&policy == &policies.front()) ours = point;
      line += fmt::format(" {} {:.2f} ({:.2f})", policy, point.rate, point.delay);
      fastest = std::max(fastest, point.rate);
      if (&policy != &policies.front() && point.delay <= ours.delay + kSame && point.rate > best) {
        best = point.rate;
        who = policy;
      }
    }
    shares.push_back(best > 0 ? ours.rate / best : 1);
    of_best.push_back(ours.rate / fastest);
    fmt::print("{} {:.3f} of {}, {:.3f} of the fastest | {} |{}\n",
               shares.back() < 0.98 ? "BEHIND" : "      ", shares.back(), who, of_best.back(),
               to_text(cluster), line);
    std::fflush(stdout);
  }
  const auto behind = std::count_if(shares.begin(), shares.end(), [](double share) { return share < 0.98; });
  const auto slow = std::count_if(of_best.begin(), of_best.end(), [](double share) { return share < 0.94; });
  fmt::print(
      "{}: more than 2 % behind another one whose gradients are no later: {} of {} (median {:.3f}, "
      "least {:.3f}); more than 6 % behind the fastest of all: {} (median {:.3f}, least {:.3f})\n",
      policies.front(), behind, count, median(shares), *std::min_element(shares.begin(), shares.end()), slow,
      median(of_best), *std::min_element(of_best.begin(), of_best.end()));
}

// Whether weights come nearer to the least of λw²/2, λ = 1, in the second half of 600 rounds.
bool stable(const std::string& policy, std::int64_t replicas, double rate) {
  constexpr double kMomentum = 0.9;
  constexpr std::int64_t kStableRounds = 600;
  const std::size_t plus = policy.find("+ahead");
  sim::Scenario scenario;
  alike(scenario.cluster, replicas, 0.1);
  control::ControllerConfig config = sim::controller_config(scenario);
  config.schedule.base = rate;
  config.look_ahead = plus != std::string::npos;
  sim::testing::Quadratic work({1}, kMomentum, config.look_ahead);
  sim::VirtualCluster run(
      scenario.cluster, config, policy::make_policy(policy::parse_policy(policy.substr(0, plus)).value()),
      {.listeners = {}, .work = &work, .stop_after_iterations = kStableRounds * replicas});
  if (!run.run_until_over().ok()) return false;
  const auto& steps = work.steps();
  const auto largest = [&](std::size_t from, std::size_t until) {
    double most = 0;
    for (std::size_t i = from; i < until; ++i) {
      const double size = std::hypot(steps[i].weights[0], rate * static_cast<double>(steps[i].velocity[0]));
      most = std::isfinite(size) ? std::max(most, size) : HUGE_VAL;
    }
    return most;
  };
  const std::size_t quarter = steps.size() / 4;
  return largest(3 * quarter, steps.size()) < largest(quarter, 2 * quarter);
}

void stability(const std::vector<std::string>& policies, const std::vector<std::int64_t>& sizes) {
  fmt::print("| policy |");
  for (const std::int64_t size : sizes) fmt::print(" N = {} |", size);
  fmt::print("\n|---|");
  for (std::size_t i = 0; i < sizes.size(); ++i) fmt::print("---:|");
  for (const std::string& policy : policies) {
    fmt::print("\n| {} |", policy);
    for (const std::int64_t size : sizes) {
      double low = 0.05, high = 5;
      while (high / low > 1.02) {
        const double rate = std::sqrt(low * high);
        (stable(for_replicas(policy, size), size, rate) ? low : high) = rate;
      }
      fmt::print(" {:.3g} |", low * 10);
      std::fflush(stdout);
    }
  }
  fmt::print("\n");
}

int measure(const std::vector<std::string>& arguments) {
  std::vector<std::string> policies;
  std::vector<std::int64_t> sizes{2, 4, 8, 16, 32, 64, 128};
  int seeds = 3, count = 0;
  std::string only;
  bool of_stability = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (word == "random") {
      count = value.empty() || value.starts_with("-") ? 60 : std::atoi(value.c_str());
    } else if (word == "stability") {
      of_stability = true;
    } else if (word == "--policies") {
      policies = absl::StrSplit(value, ',');
    } else if (word == "--replicas") {
      sizes.clear();
      for (const std::string& one : std::vector<std::string>(absl::StrSplit(value, ',')))
        sizes.push_back(std::atoi(one.c_str()));
    } else if (word == "--seeds") {
      seeds = std::atoi(value.c_str());
    } else if (word == "--only") {
      only = value;
    }
  }
  if (count > 0) {
    if (policies.empty()) policies = {"cgp", "bsp", "asp", "ssp:3", "ssp:15", "dssp:3-15", "elastic-bsp:15"};
    random(count, policies);
    return 0;
  }
  if (of_stability) {
    if (policies.empty()) {
      policies = {"bsp", "asp", "asp+ahead"};
      for (const char* patience : {"0.05", "0.1", "0.2", "1"}) {
        policies.push_back(fmt::format("cgp:patience={}", patience));
        policies.push_back(fmt::format("cgp:patience={}+ahead", patience));
      }
    }
    stability(policies, sizes);
    return 0;
  }
  if (policies.empty()) {
    policies = {"bsp",
                "ssp:3",
                "elastic-bsp:15",
                "cgp:k_min=N/4:patience=0",
                "cgp:S=1:patience=0",
                "cgp:patience=0.02",
                "cgp",
                "cgp:patience=0.1",
                "cgp:patience=0.2:d=0.5"};
  }
  for (const Kind& kind : kinds()) {
    if (std::string(kind.name).find(only) != std::string::npos) compare(kind, policies, sizes, seeds);
  }
  return 0;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::measure({argv + 1, argv + argc}); }
