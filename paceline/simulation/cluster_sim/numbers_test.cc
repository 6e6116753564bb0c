// The judge's numbers: the real shard makes the same, and any other course of commits makes others.
#include "paceline/simulation/cluster_sim/numbers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::cluster_sim {
namespace {

constexpr double kMomentum = 0.9;
const std::string kAttempt = "run 1";

// Commits of a few replicas, as bulk-synchronous and asynchronous jobs make them.
std::vector<wire::Apply> some_commits(Rng& rng) {
  std::vector<wire::Apply> commits;
  for (int version = 1; version <= 48; ++version) {
    wire::Apply& commit = commits.emplace_back();
    const auto members = 1 + static_cast<int>(rng.below(4));
    for (int i = 0; i < members; ++i) {
      wire::Apply::Member& member = *commit.add_members();
      member.set_replica(i);
      member.set_clock(version);
      member.set_weight(1.0 / members);
    }
    commit.set_version(version);
    commit.set_learning_rate(0.05);
    commit.set_fraction(members / 4.0);
  }
  return commits;
}

Content content_after(const std::vector<wire::Apply>& commits) {
  Content content;
  for (const wire::Apply& commit : commits) content = after_commit(content, kAttempt, commit, kMomentum);
  return content;
}

// The real shard of a part of the model, after these commits.
class OnePart {
 public:
  OnePart(std::int64_t begin, std::int64_t end, const std::vector<wire::Apply>& commits)
      : begin_(begin),
        shard_(model().part(begin, end), {.momentum = kMomentum},
               memory::WeightWriter::create(end - begin, 1, 0).value(), 1) {
    std::vector<float> all(static_cast<std::size_t>(model().size()));
    write_first(all);
    EXPECT_TRUE(shard_.start(Version(0), {all.data() + begin, all.data() + end}).ok());
    for (const wire::Apply& commit : commits) apply(commit);
  }

  bool has_weights(Content content) const {
    return cluster_sim::has_weights(content, begin_, shard_.weights());
  }
  bool has_velocity(Content content) const {
    return cluster_sim::has_velocity(content, begin_, shard_.optimizer_state().streams.front());
  }
  bool has_weights_at(std::int64_t offset, Content content) const {
    return cluster_sim::has_weights(content, offset, shard_.weights());
  }

 private:
  void apply(const wire::Apply& commit) {
    std::vector<std::vector<float>> gradients;
    ps::Update update{.version = shard_.version().next(),
                      .members = {},
                      .learning_rate = commit.learning_rate(),
                      .fraction = commit.fraction(),
                      .of_differences = commit.of_differences()};
    for (const auto& member : commit.members()) {
      gradients.emplace_back(static_cast<std::size_t>(model().size()));
      write_gradient(kAttempt, member.replica(), member.clock(), gradients.back());
      update.members.push_back({gradients.back().data() + begin_, member.weight(), 0});
    }
    EXPECT_TRUE(shard_.apply(update).ok());
  }

  const std::int64_t begin_;
  ps::Shard shard_;
};

TEST(Numbers, AreThoseOfTheRealShard) {
  Rng rng(1);
  std::vector<wire::Apply> commits = some_commits(rng);
  for (const auto& [begin, end] : {std::pair(0, 128), std::pair(32, 64), std::pair(96, 128)}) {
    const OnePart part(begin, end, commits);
    EXPECT_TRUE(part.has_weights(content_after(commits)));
    EXPECT_TRUE(part.has_velocity(content_after(commits)));
  }
  for (wire::Apply& commit : commits) commit.set_of_differences(true);
  EXPECT_TRUE(OnePart(0, 128, commits).has_weights(content_after(commits)));
}

// Commits at any place: near the end the least is left of an early one's momentum.
TEST(Numbers, TellWhichCommitsAVersionHasAndInWhichOrder) {
  Rng rng(2);
  for (int course = 0; course < 100; ++course) {
    const std::vector<wire::Apply> commits = some_commits(rng);
    const Content right = content_after(commits);
    const auto at = rng.below(commits.size() - 1);
    const auto place = [&](std::vector<wire::Apply>& all) {
      return all.begin() + static_cast<std::ptrdiff_t>(at);
    };
    std::vector<wire::Apply> without = commits, twice = commits, older = commits;
    without.erase(place(without));
    twice.insert(place(twice), commits[at]);
    auto& member = *older[at].mutable_members(0);
    member.set_clock(member.clock() - 1);
    for (const auto& wrong : {without, twice, older}) {
      EXPECT_FALSE(OnePart(0, 32, wrong).has_weights(right)) << course;
    }
  }
}

TEST(Numbers, TellTheOrderOfTwoCommits) {
  Rng rng(3);
  std::vector<wire::Apply> commits = some_commits(rng);
  const Content right = content_after(commits);
  std::swap(commits[46], commits[47]);
  const OnePart part(0, 32, commits);
  EXPECT_FALSE(part.has_weights(right) && part.has_velocity(right));
}

TEST(Numbers, TellOnePartFromAnother) {
  Rng rng(4);
  const std::vector<wire::Apply> commits = some_commits(rng);
  const OnePart part(32, 64, commits);
  EXPECT_FALSE(part.has_weights_at(0, content_after(commits)));
  EXPECT_FALSE(part.has_weights_at(64, content_after(commits)));
  EXPECT_FALSE(part.has_weights_at(112, content_after(commits))) << "beyond the model";
}

TEST(Numbers, AreNoneIfTheyAreNotFinite) {
  const std::vector<float> none(16, std::nanf(""));
  EXPECT_FALSE(has_weights({}, 0, none));
}

}  // namespace
}  // namespace paceline::cluster_sim
