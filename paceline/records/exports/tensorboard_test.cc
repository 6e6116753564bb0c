#include "paceline/records/exports/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "paceline/records/exports/record_file.h"
#include "paceline/records/stats/example_run.h"

namespace paceline::exports {
namespace {

// The records of an event file, each with good checksums.
std::vector<wire::Event> events_in(const std::string& text) {
  std::vector<wire::Event> events;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
    const std::string record = text.substr(at + 12, length);
    EXPECT_EQ(text.substr(at, 16 + length), framed(record));
    EXPECT_TRUE(events.emplace_back().ParseFromString(record));
    at += 16 + length;
  }
  return events;
}

TEST(IntegerHistogram, HasABucketForEachValueAndOneForEachHole) {
  IntegerHistogram all;
  for (const int value : {0, 0, 1, 5}) all.add(value);
  const wire::Histogram histogram = all.taken();
  EXPECT_THAT(histogram.bucket_limit(), testing::ElementsAre(0.5, 1.5, 4.5, 5.5));
  EXPECT_THAT(histogram.bucket(), testing::ElementsAre(2, 1, 0, 1));
  EXPECT_EQ(histogram.num(), 4);
  EXPECT_EQ(histogram.sum(), 6);
  EXPECT_EQ(histogram.sum_squares(), 26);
  EXPECT_EQ(histogram.max(), 5);
  EXPECT_TRUE(all.empty());
}

TEST(TensorBoard, WritesWhatARunWas) {
  std::string text;
  report::RunInfo info;
  info.total_samples = 3200;
  TensorBoard board(info, 1e9, "name = \"job\"\n", {{"policy", "ssp:2"}, {"lr", 0.1}, {"look_ahead", true}},
                    [&](std::string_view piece) {
                      text += piece;
                      return absl::OkStatus();
                    });
  const Time end = report::run_example(report::uneven_four(), "ssp:2", board);
  report::Summary summary;
  summary.at = end;
  summary.finished = true;
  EXPECT_TRUE(board.finish(summary, "w3 is slow").ok());
  const std::vector<wire::Event> events = events_in(text);
  EXPECT_EQ(events.at(0).file_version(), "brain.Event:2");
  EXPECT_EQ(events.at(1).session_log().status(), wire::SessionLog::START);
  std::map<std::string, int> tags;
  double gradients = 0;
  for (const wire::Event& event : events) {
    EXPECT_GE(event.wall_time(), 1e9);
    EXPECT_LE(event.wall_time(), 1e9 + to_seconds(end));
    for (const wire::Summary::Value& value : event.summary().value()) {
      ++tags[value.tag()];
      if (value.tag() == "staleness") gradients += value.histo().num();
    }
  }
  EXPECT_EQ(gradients, 100) << "each is in one histogram";
  EXPECT_EQ(tags["evaluation/accuracy"], 10);
  EXPECT_EQ(tags["training/loss"], tags["training/learning_rate"]);
  EXPECT_GT(tags["training/loss"], 20);
  for (const char* tag :
       {"job", "what held it back", "_hparams_/session_start_info", "_hparams_/session_end_info"})
    EXPECT_EQ(tags[tag], 1) << tag;
}

// A run of a month has a hundred million updates.
TEST(TensorBoard, AFileHasABoundedNumberOfPoints) {
  constexpr int kCommits = 3 * TensorBoard::kPoints;
  for (const bool known : {true, false}) {
    std::string text;
    report::RunInfo info;
    info.total_samples = known ? 10 * kCommits : 0;
    TensorBoard board(info, 1e9, "", {}, [&](std::string_view piece) {
      text += piece;
      return absl::OkStatus();
    });
    for (int i = 1; i <= kCommits; ++i) {
      control::CommitRecord commit;
      commit.version = Version(i);
      commit.samples = commit.nominal = 10;
      commit.committed_before = 10 * (i - 1);
      board.on_order(Time(from_seconds(i)), commit);
    }
    EXPECT_TRUE(board.flush().ok());
    std::int64_t points = 0;
    for (const wire::Event& event : events_in(text)) {
      for (const wire::Summary::Value& value : event.summary().value()) {
        if (value.tag() != "training/samples_per_s") continue;
        ++points;
        EXPECT_FLOAT_EQ(value.simple_value(), 10);
      }
    }
    // 20,000 of all, the same number of half of the rest, and so on.
    EXPECT_EQ(points, known ? TensorBoard::kPoints : 2 * TensorBoard::kPoints) << known;
  }
}

TEST(TensorBoard, ALossThatCountsNothingIsNotZero) {
  std::string text;
  TensorBoard board({}, 1e9, "", {}, [&](std::string_view piece) {
    text += piece;
    return absl::OkStatus();
  });
  for (const int clock : {1, 2}) {
    const Time at(from_seconds(clock));
    board.on_fact({at, control::ReplicaReady{.replica = ReplicaId(0),
                                             .clock = Clock(clock),
                                             .base = Version(clock - 1),
                                             .loss = 0.5,
                                             .metrics = {{"f1", 0.25}},
                                             .weight = clock == 1 ? 0.0 : 10.0}});
    control::CommitRecord commit;
    commit.version = Version(clock);
    commit.samples = commit.nominal = 10;
    commit.committed_before = 10 * (clock - 1);
    commit.members.push_back({ReplicaId(0), Clock(clock), Version(clock - 1), Lease{0, 0, 10}});
    board.on_order(at, commit);
  }
  EXPECT_TRUE(board.finish({}, "").ok());
  std::map<std::string, std::vector<float>> scalars;
  for (const wire::Event& event : events_in(text)) {
    for (const wire::Summary::Value& value : event.summary().value())
      scalars[value.tag()].push_back(value.simple_value());
  }
  EXPECT_THAT(scalars["training/learning_rate"], testing::SizeIs(2));
  EXPECT_THAT(scalars["training/loss"], testing::ElementsAre(0.5f));
  EXPECT_THAT(scalars["training/f1"], testing::ElementsAre(0.25f));
}

}  // namespace
}  // namespace paceline::exports
