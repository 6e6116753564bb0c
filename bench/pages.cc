// A run of many devices for the pages to show: so many iterations lie in its journal already, then it goes on
// in real time. bench_pages FOLDER DEVICES ITERATIONS SECONDS; then `paceline ui FOLDER` shows it, and
// tests/web/pages_cost.mjs measures that.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/stats/example_run.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/records/store/run_folder.h"

namespace paceline {
namespace {

using Steady = std::chrono::steady_clock;

// Writes at once up to that many iterations, and from there on when their time has come.
class InTime final : public control::RunListener {
 public:
  InTime(store::Journal& journal, std::int64_t at_once, std::chrono::seconds then)
      : journal_(journal), at_once_(at_once), then_(then) {}

  void on_fact(const control::Fact& fact) override {
    iterations_ += std::holds_alternative<control::ReplicaReady>(fact.what);
    if (iterations_ > at_once_) wait(fact.at);
    journal_.on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override { journal_.on_order(at, order); }
  void on_evaluated(const control::Evaluated& evaluated) override { journal_.on_evaluated(evaluated); }

 private:
  static constexpr std::chrono::milliseconds kFlush{100};

  void wait(Time at) {
    const auto now = Steady::now();
    if (began_ == Steady::time_point{}) {
      began_ = flushed_ = now;
      from_ = at;
      flush();
      PACELINE_CHECK(
          journal_.set(runs::released_key(1), fmt::format("{} {}", unix_ns(), at.time_since_epoch().count()))
              .ok(),
          "set");
      fmt::print("{} iterations are there; it goes on\n", at_once_);
      std::fflush(stdout);
    }
    if (now - began_ > then_) std::exit(0);
    if (now - flushed_ > kFlush) {
      flush();
      flushed_ = now;
    }
    std::this_thread::sleep_until(began_ + (at - from_));
  }
  void flush() { PACELINE_CHECK(journal_.flush().ok(), "the journal cannot be written"); }
  static std::int64_t unix_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  store::Journal& journal_;
  const std::int64_t at_once_;
  const std::chrono::seconds then_;
  std::int64_t iterations_ = 0;
  Steady::time_point began_{}, flushed_{};
  Time from_{};
};

int run(const std::string& folder, std::int64_t devices, std::int64_t iterations, std::int64_t seconds) {
  const store::RunPaths run{folder};
  std::filesystem::create_directories(run.logs());
  std::ofstream(run.job()) << fmt::format(
      "name = \"large\"\n[sync]\npolicy = \"ssp:8\"\n[[device]]\ncount = {}\n", devices);
  std::ofstream(run.metrics()) << "";
  const auto held = store::lock_file(run.lock());
  PACELINE_CHECK(held.ok() && held->has_value(), "somebody writes this run");
  report::ExampleJob job;
  job.jitter = 0.2;
  for (std::int64_t i = 0; i < devices; ++i)
    job.replicas.push_back({.name = fmt::format("w{}", i), .iteration_s = i == 7 ? 3.0 : 1.0});
  job.samples = 32 * (iterations + devices * (seconds + 60));
  job.evaluate_every = job.samples / 200;
  auto journal = store::Journal::open(run.journal(), Version(0));
  PACELINE_CHECK(journal.ok() && (*journal)->set(runs::kTotalSamplesKey, std::to_string(job.samples)).ok(),
                 "no journal");
  InTime in_time(**journal, iterations, std::chrono::seconds(seconds));
  report::run_example(job, "ssp:8", in_time);
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int count, char** words) {
  if (count != 5) {
    fmt::print(stderr, "bench_pages FOLDER DEVICES ITERATIONS SECONDS\n");
    return 2;
  }
  return paceline::run(words[1], std::atoll(words[2]), std::atoll(words[3]), std::atoll(words[4]));
}
