// Runs many seeds, on all processors, or one seed with a trace of all its events. Exit status 1: a promise
// was broken.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/control_groups.h"
#include "paceline/simulation/cluster_sim/run.h"

namespace paceline::cluster_sim {

namespace {

struct Asked {
  std::uint64_t from = 0;
  std::uint64_t seeds = 100'000;
  bool trace = false;
  Break broken = Break::kNone;
};

int usage() {
  fmt::print(stderr,
             "usage: ./dev sim [--seeds N] [--from SEED] [--seed SEED [--trace]] [--break WHAT]\nWHAT:");
  for (int i = 1; i < kBreaks; ++i) fmt::print(stderr, " {}", name_of(static_cast<Break>(i)));
  fmt::print(stderr, "\n");
  return 2;
}

std::optional<Asked> asked(int argc, char** argv) {
  Asked asked;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--trace") {
      asked.trace = true;
      continue;
    }
    if (++i == argc) return std::nullopt;
    const std::string value = argv[i];
    const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (word == "--seed") {
      asked.from = number;
      asked.seeds = 1;
    } else if (word == "--seeds") {
      asked.seeds = number;
    } else if (word == "--from") {
      asked.from = number;
    } else if (word == "--break") {
      int which = 0;
      while (which < kBreaks && name_of(static_cast<Break>(which)) != value) ++which;
      if (which == kBreaks) return std::nullopt;
      asked.broken = static_cast<Break>(which);
    } else {
      return std::nullopt;
    }
  }
  return asked;
}

// The totals of all runs.
struct Sum {
  std::mutex mutex;
  std::int64_t runs = 0, attempts = 0, faults = 0, made_early = 0;
  double seconds = 0;
  std::map<std::pair<coordinator::Phase, coordinator::Phase>, std::int64_t> transitions;
  // the run with the least seed of those that broke a promise
  std::optional<std::pair<std::uint64_t, Outcome>> broken;

  void add(std::uint64_t seed, Outcome outcome) {
    const std::lock_guard lock(mutex);
    ++runs;
    attempts += outcome.attempts;
    faults += outcome.faults;
    made_early += outcome.made_early;
    seconds += outcome.seconds;
    for (const auto& [way, count] : outcome.transitions) transitions[way] += count;
    const bool first = !broken || seed < broken->first;
    if (!outcome.broken.empty() && first) broken = {seed, std::move(outcome)};
  }
};

int main_of(int argc, char** argv) {
  const auto all = asked(argc, argv);
  if (!all) return usage();
  Sum sum;
  std::atomic<std::uint64_t> next = all->from;
  std::atomic<bool> stop = false;
  {
    std::vector<std::jthread> threads;
    const unsigned count = all->seeds == 1 ? 1 : static_cast<unsigned>(usable_processors());
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        while (!stop) {
          const std::uint64_t seed = next++;
          if (seed >= all->from + all->seeds) return;
          Outcome outcome = run(seed, all->trace, all->broken);
          for (const std::string& line : outcome.trace) fmt::print("{}\n", line);
          if (!outcome.broken.empty()) stop = true;
          sum.add(seed, std::move(outcome));
        }
      });
    }
  }
  if (sum.broken) {
    fmt::print("seed {}: {}\nto see it: ./dev sim --seed {} --trace{}\n", sum.broken->first,
               sum.broken->second.broken, sum.broken->first,
               all->broken == Break::kNone ? "" : " --break " + name_of(all->broken));
    return 1;
  }
  fmt::print("{} runs, {} attempts, {} faults, {:.0f} h of made-up time: every promise was kept\n", sum.runs,
             sum.attempts, sum.faults, sum.seconds / 3600);
  fmt::print("{} versions were made before they were ordered\n", sum.made_early);
  for (const auto& [way, count] : sum.transitions)
    fmt::print("  {:>9} → {:9} {:9}\n", coordinator::name_of(way.first), coordinator::name_of(way.second),
               count);
  return 0;
}

}  // namespace

}  // namespace paceline::cluster_sim

int main(int argc, char** argv) { return paceline::cluster_sim::main_of(argc, argv); }
