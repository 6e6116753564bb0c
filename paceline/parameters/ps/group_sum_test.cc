// A shard that finds parts of the sum made by the members: the same bytes as without them, whatever part of
// the sum is there.
#include "paceline/parameters/ps/group_sum.h"

#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/transport/collective/execution.h"
#include "paceline/transport/collective/progress.h"

namespace paceline::ps {
namespace {

using ::testing::ElementsAreArray;

constexpr int kMembers = 3;
constexpr Version kVersion{1};

// Several chunks a member, and statistics between, which are averaged by shares and not summed by weights.
Layout group_layout() {
  Layout layout;
  layout.add("a", TensorKind::kParameter, {70'000});
  layout.add("mean", TensorKind::kStatistic, {100});
  layout.add("b", TensorKind::kParameter, {90'003});
  return layout;
}

// A member's buffer, and the work of the one whose rank it has.
class Member final : public collective::Fabric {
 public:
  explicit Member(std::uint64_t seed)
      : writer_(memory::GradientWriter::create(group_layout().size()).value()),
        reader_(memory::GradientReader::open(writer_.path(), group_layout().size()).value()) {
    Rng rng(seed);
    for (float& value : writer_.gradient()) value = static_cast<float>(rng.normal());
  }
  void sum(int rank, std::vector<const float*> inputs, std::vector<float> weights, std::int64_t steps) {
    inputs_ = std::move(inputs);
    collective::Execution(group_plan(kMembers, group_layout().size()), rank, std::move(weights), *this)
        .advance(steps);
  }
  // The members' part of another commit.
  void sum_other(std::int64_t attempt) {
    for (float& value : writer_.sums()) value = 1e9f;
    writer_.publish_sums(collective::progress_word(attempt, collective::kMostSteps));
  }
  const memory::GradientReader& reader() const { return reader_; }
  const float* gradient() const { return reader_.gradient(Clock(0))->data(); }

  std::optional<std::int64_t> finished(int) override { return 0; }
  const float* read(int rank, collective::Source, collective::Range range) override {
    return inputs_[static_cast<std::size_t>(rank)] + range.begin;
  }
  float* write(collective::Range range) override { return writer_.sums().data() + range.begin; }
  void publish(std::int64_t steps) override {
    writer_.publish_sums(collective::progress_word(kVersion.value(), steps));
  }

 private:
  memory::GradientWriter writer_;
  memory::GradientReader reader_;
  std::vector<const float*> inputs_;
};

struct Group {
  Group() {
    for (std::uint64_t i = 0; i < kMembers; ++i) members.emplace_back(i);
  }
  static double weight(int member) { return 0.1 + 0.3 * member; }
  // Member `rank` does so many of its steps.
  void sum(int rank, std::int64_t steps) {
    std::vector<const float*> inputs;
    std::vector<float> weights;
    for (int i = 0; i < kMembers; ++i) {
      inputs.push_back(members[static_cast<std::size_t>(i)].gradient());
      weights.push_back(static_cast<float>(weight(i)));
    }
    members[static_cast<std::size_t>(rank)].sum(rank, inputs, weights, steps);
  }
  // The weights after the commit, on a shard with the model's tensors [from, to).
  std::vector<float> applied(bool in_group, std::size_t from = 0, std::size_t to = 3, int threads = 1,
                             bool kept = false) const {
    const Layout whole = group_layout();
    Layout part;
    for (std::size_t i = from; i < to; ++i) {
      const TensorSpec& tensor = whole.tensors()[i];
      part.add(tensor.name, tensor.kind, tensor.shape);
    }
    const std::int64_t offset = whole.tensors()[from].offset;
    std::optional<KeptState> state;
    if (kept) state = KeptState::create(KeptShape::of(part, OptimizerKind::kSgd, threads), 1).value();
    Shard shard(part, {}, memory::WeightWriter::create(part.size(), 1, 0).value(), threads, {}, {},
                std::move(state));
    EXPECT_TRUE(
        shard.start(Version(0), std::vector<float>(static_cast<std::size_t>(part.size()), 1.0f)).ok());
    Update update{.version = kVersion, .members = {}, .learning_rate = 0.1};
    std::vector<const memory::GradientReader*> readers;
    for (int i = 0; i < kMembers; ++i) {
      const Member& member = members[static_cast<std::size_t>(i)];
      update.members.push_back({member.gradient() + offset, weight(i), 1.0 / kMembers});
      readers.push_back(&member.reader());
    }
    if (in_group) update.group.emplace(kVersion, readers, group_layout().size(), offset);
    EXPECT_TRUE(shard.apply(update).ok());
    return {shard.weights().begin(), shard.weights().end()};
  }
  std::vector<Member> members;
};

TEST(GroupSum, AnyPartOfTheSumGivesTheSameBytes) {
  Group group;
  const std::vector<float> alone = group.applied(false);
  EXPECT_THAT(group.applied(true), ElementsAreArray(alone)) << "nothing is there";
  const auto all =
      static_cast<std::int64_t>(collective::steps_of(group_plan(kMembers, group_layout().size()), 0).size());
  ASSERT_GT(all, 3 * kMembers) << "several chunks";
  for (std::int64_t steps = 1; steps <= all; ++steps) {
    Group fresh;
    fresh.sum(1, steps);
    fresh.sum(2, all - steps);
    EXPECT_EQ(fresh.applied(true), alone) << steps << " steps";
    EXPECT_EQ(fresh.applied(true, 0, 3, 1, true), alone) << steps << " steps, in memory that is kept";
  }
}

TEST(GroupSum, AnyNumberOfThreadsAndShardsGivesTheSameBytes) {
  Group group;
  for (int rank = 0; rank < kMembers; ++rank) group.sum(rank, rank == 1 ? 4 : collective::Execution::kAll);
  const std::vector<float> alone = group.applied(false);
  EXPECT_EQ(group.applied(true, 0, 3, 3), alone);
  EXPECT_EQ(group.applied(true, 0, 3, 3, true), alone);
  std::vector<float> parts = group.applied(true, 0, 1);
  for (const float value : group.applied(true, 1, 3)) parts.push_back(value);
  EXPECT_EQ(parts, alone);
}

// So that equal bytes above say something.
TEST(GroupSum, TheSumIsReadWhereItIsThere) {
  Group group;
  for (int rank = 0; rank < kMembers; ++rank) group.sum(rank, collective::Execution::kAll);
  std::vector<const memory::GradientReader*> readers;
  for (const Member& member : group.members) readers.push_back(&member.reader());
  const GroupSum whole(kVersion, readers, group_layout().size(), 0);
  const std::int64_t size = group_layout().size();
  int pieces = 0;
  for (std::int64_t at = 0; at < size; ++pieces) {
    const GroupSum::Piece piece = whole.piece(at, size);
    ASSERT_NE(piece.sum, nullptr) << "element " << at;
    ASSERT_GT(piece.end, at);
    at = piece.end;
  }
  EXPECT_GE(pieces, 9);
  EXPECT_EQ(whole.piece(5, 8).end, 8);
  EXPECT_EQ(GroupSum(Version(2), readers, size, 0).piece(0, size).sum, nullptr) << "another commit's";
}

TEST(GroupSum, SumsOfOtherCommitsAreNotTaken) {
  Group group;
  const std::vector<float> alone = group.applied(false);
  group.members[0].sum_other(0);
  group.members[2].sum_other(2);
  EXPECT_EQ(group.applied(true), alone);
}

}  // namespace
}  // namespace paceline::ps
