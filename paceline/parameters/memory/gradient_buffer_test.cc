// A worker's gradient as a shard reads it: of exactly the iteration that was asked for, or not at all.
#include "paceline/parameters/memory/gradient_buffer.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/child_process.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::memory {
namespace {

using paceline::testing::ChildProcess;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t kGradientFloats = 3000;

TEST(GradientBuffer, IsZeroUntilItIsWritten) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  EXPECT_EQ(writer.gradient().size(), static_cast<std::size_t>(kGradientFloats));
  EXPECT_THAT(writer.gradient(), Each(0.0f));
}

TEST(GradientBuffer, TheReaderSeesWhatWasWrittenOnceItIsStamped) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  const GradientReader reader = GradientReader::open(writer.path(), kGradientFloats).value();
  std::fill(writer.gradient().begin(), writer.gradient().end(), 2.5f);
  writer.stamp(Clock(7));
  const auto gradient = reader.gradient(Clock(7));
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_EQ(gradient->size(), static_cast<std::size_t>(kGradientFloats));
  EXPECT_THAT(*gradient, Each(2.5f));
}

TEST(GradientBuffer, AnotherIterationIsRefused) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  const GradientReader reader = GradientReader::open(writer.path(), kGradientFloats).value();
  writer.stamp(Clock(7));
  for (const Clock wrong : {Clock(1), Clock(6), Clock(8)}) {
    const absl::Status refused = reader.gradient(wrong).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("holds iteration 7"));
  }
  writer.stamp(Clock(8));
  EXPECT_TRUE(reader.gradient(Clock(8)).ok());
  EXPECT_FALSE(reader.gradient(Clock(7)).ok());
}

TEST(GradientBuffer, AnOptimizersFirstStateLiesBehindTheSums) {
  GradientWriter writer = GradientWriter::create(kGradientFloats, 2, 7.5).value();
  const GradientReader reader = GradientReader::open(writer.path(), kGradientFloats).value();
  std::fill(writer.sums().begin(), writer.sums().end(), 4.0f);
  ASSERT_EQ(writer.first_state().size(), static_cast<std::size_t>(2 * kGradientFloats));
  EXPECT_THAT(reader.first_state(), Each(0.0f));
  std::fill(writer.first_state().begin(), writer.first_state().end(), 3.0f);
  EXPECT_THAT(reader.first_state(), Each(3.0f));
  EXPECT_THAT(reader.sums(), Each(4.0f));
  EXPECT_EQ(reader.first_state().size(), writer.first_state().size());
  EXPECT_EQ(reader.first_steps(), 7.5);
  GradientWriter none = GradientWriter::create(kGradientFloats).value();
  EXPECT_TRUE(none.first_state().empty());
  EXPECT_TRUE(GradientReader::open(none.path(), kGradientFloats)->first_state().empty());
}

TEST(GradientBuffer, SumsLieBesideTheGradient) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  const GradientReader reader = GradientReader::open(writer.path(), kGradientFloats).value();
  EXPECT_EQ(reader.sums_progress(), 0u);
  std::fill(writer.gradient().begin(), writer.gradient().end(), 2.5f);
  std::fill(writer.sums().begin(), writer.sums().end(), 4.0f);
  writer.publish_sums(77);
  EXPECT_EQ(reader.sums_progress(), 77u);
  EXPECT_EQ(reader.sums().size(), static_cast<std::size_t>(kGradientFloats));
  EXPECT_THAT(reader.sums(), Each(4.0f));
  EXPECT_THAT(*reader.gradient(Clock(0)), Each(2.5f));
}

TEST(GradientBuffer, WorksBetweenProcesses) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  writer.gradient()[static_cast<std::size_t>(kGradientFloats) - 1] = 4.0f;
  writer.stamp(Clock(1));
  ChildProcess shard([&](const ChildProcess::Parent&) {
    const auto reader = GradientReader::open(writer.path(), kGradientFloats);
    if (!reader.ok()) return 1;
    const auto gradient = reader->gradient(Clock(1));
    return gradient.ok() && gradient->back() == 4.0f ? 0 : 2;
  });
  EXPECT_EQ(shard.wait(), 0);
}

TEST(GradientBuffer, StagesInTwoProcessesWriteTheirPartsOfOne) {
  GradientWriter first = GradientWriter::create(kGradientFloats).value();
  std::fill_n(first.gradient().begin(), 1000, 1.0f);
  ChildProcess second([&](const ChildProcess::Parent&) {
    auto part = GradientWriter::open(first.path(), kGradientFloats);
    if (!part.ok()) return 1;
    std::fill(part->gradient().begin() + 1000, part->gradient().end(), 2.0f);
    return 0;
  });
  EXPECT_EQ(second.wait(), 0);
  first.stamp(Clock(1));
  const GradientReader reader = GradientReader::open(first.path(), kGradientFloats).value();
  const auto gradient = reader.gradient(Clock(1)).value();
  EXPECT_THAT(gradient.first(1000), Each(1.0f));
  EXPECT_THAT(gradient.subspan(1000), Each(2.0f));
}

TEST(GradientBuffer, AnotherModelsIsRefused) {
  GradientWriter writer = GradientWriter::create(kGradientFloats).value();
  for (const std::int64_t floats : {kGradientFloats - 1, kGradientFloats + 1, std::int64_t{1'000'000}}) {
    EXPECT_EQ(GradientReader::open(writer.path(), floats).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GradientWriter::open(writer.path(), floats).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const WeightWriter board = WeightWriter::create(kGradientFloats, 1, 0).value();
  EXPECT_EQ(GradientReader::open(board.path(), kGradientFloats).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GradientBuffer, AWorkerThatIsGoneIsNotFound) {
  std::string path;
  {
    const GradientWriter writer = GradientWriter::create(kGradientFloats).value();
    path = writer.path();
  }
  EXPECT_EQ(GradientReader::open(path, kGradientFloats).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline::memory
