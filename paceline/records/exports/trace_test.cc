#include "paceline/records/exports/trace.h"

#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/resident_memory.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/stats/example_run.h"

namespace paceline::exports {
namespace {

using report::Json;

std::int64_t ns(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

struct Slice {
  std::int64_t start, end;
  std::string name;
};

// A trace, parsed and held to its promises.
class Traced {
 public:
  explicit Traced(const std::string& text) : json_(Json::parse(text)) {
    std::map<std::uint64_t, Json> begins;
    for (const Json& event : json_.at("traceEvents")) {
      const std::string phase = event.at("ph");
      if (phase == "X") {
        const std::int64_t start = ns(event.at("ts"));
        slices_[track(event)].push_back({start, start + ns(event.at("dur")), event.at("name")});
      }
      if (phase == "M" && event.at("name") == "thread_name" && event.at("pid") == 1)
        names_[track(event)] = event.at("args").at("name");
      if (phase == "s") begins[event.at("id")] = event;
      if (phase == "f") ends_.emplace_back(begins.at(event.at("id")), event);
      ++phases_[phase];
    }
    EXPECT_EQ(begins.size(), ends_.size());
    for (const auto& [begin, end] : ends_) {
      EXPECT_LE(ns(begin.at("ts")), ns(end.at("ts")));
      EXPECT_THAT(slice_at(begin), testing::StartsWith("wait for "));
      EXPECT_NE(slice_at(end), "");
    }
    for (const auto& [where, slices] : slices_) {
      for (std::size_t i = 1; i < slices.size(); ++i)
        EXPECT_GE(slices[i].start, slices[i - 1].end) << where.second << " " << slices[i].name;
    }
  }

  using Track = std::pair<int, int>;
  static Track track(const Json& event) { return {event.at("pid"), event.at("tid")}; }
  std::string slice_at(const Json& event) const {
    for (const Slice& slice : slices_.at(track(event))) {
      if (slice.start <= ns(event.at("ts")) && ns(event.at("ts")) < slice.end) return slice.name;
    }
    return "";
  }
  // The nanoseconds that the device of this name spent in slices of each name.
  std::map<std::string, std::int64_t> spent(const std::string& device) const {
    std::map<std::string, std::int64_t> all;
    for (const auto& [where, name] : names_) {
      if (name != device) continue;
      for (const Slice& slice : slices_.at(where)) all[slice.name] += slice.end - slice.start;
    }
    return all;
  }
  int count(const std::string& phase) const {
    const auto found = phases_.find(phase);
    return found == phases_.end() ? 0 : found->second;
  }
  const Json& json() const { return json_; }
  const std::vector<std::pair<Json, Json>>& arrows() const { return ends_; }
  const std::string& name_of(const Json& event) const { return names_.at(track(event)); }

 private:
  Json json_;
  std::map<Track, std::vector<Slice>> slices_;
  std::map<Track, std::string> names_;
  std::vector<std::pair<Json, Json>> ends_;
  std::map<std::string, int> phases_;
};

Traced traced(const report::ExampleJob& job, const std::string& policy) {
  std::string text;
  report::RunInfo info;
  info.title = "job \"x\"";
  Trace trace(info, [&](std::string_view piece) {
    text += piece;
    return absl::OkStatus();
  });
  const Time end = report::run_example(job, policy, trace);
  EXPECT_TRUE(trace.finish(end).ok());
  return Traced(text);
}

// The slices of the servers' track of that name: name, start and end in seconds.
std::vector<std::string> slices_of(const Traced& all, const std::string& track) {
  std::vector<std::string> found;
  int number = -1;
  for (const Json& event : all.json().at("traceEvents")) {
    const bool servers = event.at("pid") == 2;
    if (servers && event.at("name") == "thread_name" && event.at("args").at("name") == track)
      number = event.at("tid");
    if (!servers || number < 0 || event.value("tid", -1) != number || event.at("ph") == "M") continue;
    const double start = event.at("ts").get<double>() / 1e6;
    found.push_back(fmt::format("{} {} {} {}", event.at("ph").get<std::string>(),
                                event.at("name").get<std::string>(), start,
                                start + event.value("dur", 0.0) / 1e6));
  }
  return found;
}

TEST(Trace, ShowsHowLongServersAndTheEvaluatorWorked) {
  using control::SideWork;
  std::string text;
  Trace trace({}, [&](std::string_view piece) {
    text += piece;
    return absl::OkStatus();
  });
  const auto at = [](double s) { return Time(from_seconds(s)); };
  const auto commit = [&](double s, std::int64_t version) {
    control::CommitRecord record;
    record.version = Version(version);
    record.checkpoint.emplace();
    trace.on_order(at(s), record);
  };
  const auto update = [&](double s, double took, std::int64_t version, int server) {
    trace.on_side_work(
        {.at = at(s), .version = Version(version), .took = from_seconds(took), .server = server});
  };
  commit(1, 1);
  update(1.5, 0.5, 1, 0);
  update(2, 1, 1, 7);
  update(2, 1, 2, 0);
  trace.on_side_work({at(4), SideWork::Kind::kCheckpoint, Version(1), from_seconds(3)});
  trace.on_side_work({at(6), SideWork::Kind::kEvaluation, Version(1), from_seconds(2)});
  trace.on_evaluated({at(1), Version(1), 8, 2.5, 0.5});
  trace.on_evaluated({at(5), Version(2), 8, 2.5, 0.5});
  commit(7, 2);
  EXPECT_TRUE(trace.finish(at(8)).ok());
  const Traced all(text);
  using testing::ElementsAre;
  EXPECT_THAT(slices_of(all, "updates of server 0"), ElementsAre("X update 1 1 1.5", "X update 2 1.5 2"));
  EXPECT_THAT(slices_of(all, "updates of server 7"), ElementsAre("X update 1 1 2"));
  EXPECT_THAT(slices_of(all, "checkpoints"), ElementsAre("X checkpoint 1 1 4", "i checkpoint 2 7 7"));
  EXPECT_THAT(slices_of(all, "evaluations"), ElementsAre("X evaluation of 1 4 6", "i evaluation of 2 5 5"));
}

class TraceOfPolicy : public testing::TestWithParam<std::string> {};

TEST_P(TraceOfPolicy, HoldsItsPromises) {
  report::ExampleJob job = report::uneven_four();
  job.jitter = 0.5;
  job.replicas[1].leaves_at_s = 1.234;
  const Traced all = traced(job, GetParam());
  EXPECT_GT(all.count("X"), 50);
  EXPECT_GT(all.count("C"), 10);
}

INSTANTIATE_TEST_SUITE_P(Policies, TraceOfPolicy, testing::ValuesIn(policy::example_policies()));

// A trace keeps only its unwritten text in memory, so its memory does not grow with the run.
TEST(Trace, AMillionIterationsAreStreamedInLittleMemory) {
  report::ExampleJob job;
  job.batch = 1;
  job.samples = 1'000'000;
  job.evaluate_every = 100'000;
  for (int i = 0; i < 4; ++i)
    job.replicas.push_back({.name = fmt::format("w{}", i), .iteration_s = 0.1 + 0.01 * i});
  std::int64_t bytes = 0, early = 0, late = 0;
  Trace trace({}, [&](std::string_view piece) {
    bytes += std::ssize(piece);
    if (bytes < 64'000'000) early = resident_bytes();
    late = resident_bytes();
    return absl::OkStatus();
  });
  const Time end = report::run_example(job, "asp", trace);
  EXPECT_TRUE(trace.finish(end).ok());
  EXPECT_GT(bytes, 250'000'000);
  EXPECT_GT(early, 0);
  EXPECT_LT(late - early, 8'000'000) << "of " << bytes << " bytes of text";
}

TEST(Trace, UnderBspAllArrowsGoToTheSlowest) {
  const Traced all = traced(report::uneven_four(), "bsp");
  EXPECT_EQ(all.arrows().size(), 75u) << "25 rounds, and three that wait in each";
  for (const auto& [from, to] : all.arrows()) EXPECT_EQ(all.name_of(to), "w3");
  auto fast = all.spent("w0");
  EXPECT_EQ(fast["compute"], 2'500'000'000);
  EXPECT_EQ(fast["wait for w3"], 5'000'000'000);
  EXPECT_EQ(all.spent("w3")["compute"], 7'500'000'000);
  EXPECT_EQ(all.json().at("otherData").at("job"), "job \"x\"");
}

TEST(Trace, SaysWhyOneWaited) {
  const Traced all = traced(report::uneven_four(), "ssp:1");
  for (const Json& event : all.json().at("traceEvents")) {
    if (event.value("cat", "") != "wait" || event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("args").at("rule"), "… ahead of the slowest, … allowed");
    EXPECT_EQ(event.at("args").at("why"), "1 ahead of the slowest, 1 allowed");
    return;
  }
  FAIL() << "nobody waited";
}

TEST(Trace, AFileThatCannotBeWrittenIsAnError) {
  int pieces = 0;
  Trace trace(report::RunInfo{}, [&](std::string_view) {
    ++pieces;
    return absl::ResourceExhaustedError("full");
  });
  report::ExampleJob job = report::uneven_four();
  job.samples = 320'000;
  const Time end = report::run_example(job, "bsp", trace);
  EXPECT_EQ(trace.finish(end).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace paceline::exports
