// Simulates every policy on every scenario of a folder, in hard weather, for many seeds:
//   sim_seeds FOLDER [--seeds N] [--from SEED]
// Checked of each run: whatever the Observer checks (bounds, samples once, nobody used twice), that nobody
// waits for ever, that every sample is committed, and now and then that the same seed gives the same run.
// Exit status 1 with the command that repeats it when one fails.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "paceline/decisions/control/trace_hash.h"
#include "paceline/decisions/policy/testing/every_policy.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/testing/faulty.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::sim::testing {
namespace {

const std::vector<std::string> kHarder = {"bsp",
                                          "asp",
                                          "ssp:0",
                                          "ssp:3",
                                          "dssp:3-15",
                                          "dssp:0-4",
                                          "dssp:3-15:printed",
                                          "elastic-bsp:15",
                                          "elastic-bsp:4:average",
                                          "cgp",
                                          "cgp:k_min=3:S=8",
                                          "cgp:S=0",
                                          "cgp:k_max=2:S=3",
                                          "cgp:grouping=dp:k_max=8",
                                          "cgp:grouping=window:wait_max=20ms",
                                          "backup:1",
                                          "backup:3",
                                          "groups:2+2+4:ssp:3",
                                          "groups:1+2:asp",
                                          "groups:2+1+3:bsp",
                                          "groups:1+3+2:dssp:3-15",
                                          "groups:2+2+2:elastic-bsp:4",
                                          "groups:2+1+2+1:backup:1"};

const std::vector<std::string> kPolicies = policy::testing::with_every_policy(kHarder);

std::string current_case;

// A failed check aborts: the command that repeats it must come out all the same.
void on_abort(int) { std::fputs(current_case.c_str(), stderr); }

struct Outcome {
  std::string wrong;  // empty: all is well
  std::uint64_t hash = 0;
};

Outcome run(const Scenario& scenario, const std::string& policy) {
  control::TraceHash hash;
  VirtualCluster cluster(scenario.cluster, controller_config(scenario),
                         policy::make_policy(policy::parse_policy(policy).value()), {.listeners = {&hash}});
  const absl::Status status = cluster.run_until_over();
  if (cluster.broken()) return {*cluster.broken(), 0};
  if (!status.ok()) return {std::string(status.message()), 0};
  if (cluster.controller().committed_samples() != scenario.samples) return {"samples are missing", 0};
  return {"", hash.value()};
}

struct Named {
  std::string name;
  Scenario scenario;
};

std::vector<Named> read_scenarios(const std::string& folder) {
  std::vector<Named> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    auto scenario = parse_scenario(text.str(), entry.path());
    if (!scenario.ok()) {
      fmt::print(stderr, "{}\n", std::string(scenario.status().message()));
      std::exit(2);
    }
    all.push_back({entry.path().stem(), *std::move(scenario)});
  }
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return all;
}

// A large scenario takes longer than all the others together: it gets one seed in this many.
constexpr std::uint64_t kLargeEvery = 10;
bool is_large(const Scenario& scenario) { return scenario.cluster.places.size() > 100; }

// Enough for a few rounds of all, and for the faults to matter.
std::int64_t iterations_for(const Scenario& scenario) {
  const auto places = static_cast<std::int64_t>(scenario.cluster.places.size());
  return is_large(scenario) ? 4 * places : std::max<std::int64_t>(300, 40 * places);
}

int run_all(const std::string& folder, std::uint64_t from, std::uint64_t seeds) {
  const std::vector<Named> scenarios = read_scenarios(folder);
  std::int64_t runs = 0;
  for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
    for (const auto& [name, preset] : scenarios) {
      if (is_large(preset) && seed % kLargeEvery != 1) continue;
      const Scenario scenario = faulty(preset, seed, iterations_for(preset));
      for (const std::string& policy : kPolicies) {
        current_case =
            fmt::format("{} under {}, seed {}; again with: ./dev sim --policies --from {} --seeds 1\n", name,
                        policy, seed, seed);
        Outcome outcome = run(scenario, policy);
        const bool repeat = (seed + static_cast<std::uint64_t>(runs)) % 16 == 0;
        if (outcome.wrong.empty() && repeat && run(scenario, policy).hash != outcome.hash)
          outcome.wrong = "the same seed gave another run";
        if (!outcome.wrong.empty()) {
          fmt::print(stderr, "{}\n{}", outcome.wrong, current_case);
          return 1;
        }
        ++runs;
      }
    }
  }
  fmt::print("{} runs: {} seeds, {} scenarios, {} policies, every promise kept\n", runs, seeds,
             scenarios.size(), kPolicies.size());
  return 0;
}

}  // namespace
}  // namespace paceline::sim::testing

int main(int argc, char** argv) {
  std::uint64_t seeds = 200;
  std::uint64_t from = 1;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--seeds") == 0 && has_value) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--from") == 0 && has_value) {
      from = std::strtoull(argv[++i], nullptr, 10);
    } else if (folder.empty() && argv[i][0] != '-') {
      folder = argv[i];
    } else {
      folder.clear();
      break;
    }
  }
  if (folder.empty() || seeds == 0) {
    fmt::print(stderr, "usage: sim_seeds FOLDER [--seeds N] [--from SEED]\n");
    return 2;
  }
  std::signal(SIGABRT, paceline::sim::testing::on_abort);
  return paceline::sim::testing::run_all(folder, from, seeds);
}
