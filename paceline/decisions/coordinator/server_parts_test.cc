// Tests which part of the model each server keeps, and which shards.
#include "paceline/decisions/coordinator/server_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::HasSubstr;

// The shards of each server, from their numbers.
ServerShards kept(const std::vector<std::vector<std::int32_t>>& numbers) {
  ServerShards kept(numbers.size());
  for (const ServerId server : kept.ids()) {
    for (const std::int32_t shard : numbers[static_cast<std::size_t>(server.value())])
      kept[server].emplace_back(shard);
  }
  return kept;
}

TEST(ShardsKept, NeighboursHaveThoseOfEachOther) {
  EXPECT_EQ(shards_kept(3, 1), (kept({{0}, {1}, {2}})));
  EXPECT_EQ(shards_kept(3, 2), (kept({{0, 2}, {1, 0}, {2, 1}})));
}

Layout small_model() {
  Layout layout;
  layout.add("a", TensorKind::kParameter, {100});
  layout.add("b", TensorKind::kParameter, {7});
  return layout;
}

TEST(ServerParts, InOnePlaceTheFirstHasThemAll) {
  for (const bool whole_tensors : {false, true}) {
    const auto parts = server_parts(small_model(), 5, ServerSpread::kCentral, whole_tensors).value();
    ASSERT_EQ(parts.size(), 5u);
    EXPECT_EQ(parts[0], small_model());
    for (std::size_t i = 1; i < parts.size(); ++i) EXPECT_EQ(parts[i].size(), 0);
  }
}

TEST(ServerParts, BetweenHostsTensorsAreCutUnlessTheyMustBeWhole) {
  EXPECT_EQ(server_parts(small_model(), 4, ServerSpread::kHosts, false)->size(), 4u);
  EXPECT_THAT(server_parts(small_model(), 4, ServerSpread::kHosts, true).status().message(),
              HasSubstr("has too few tensors for 4 hosts; write at most 2"));
  EXPECT_THAT(server_parts(small_model(), 3, ServerSpread::kOneHost, false).status().message(),
              HasSubstr("too few tensors for 3 servers; write at most 2"));
}

TEST(SharesByMemory, AreWhatCardsHaveFreeBesideTheModelsOfTheirWorkers) {
  const std::vector<std::string> two{"A", "B"};
  const auto equal_to = [](std::vector<double> shares) {
    std::vector<testing::Matcher<double>> all;
    for (const double share : shares) all.push_back(testing::DoubleNear(share, 1e-12));
    return testing::Optional(testing::ElementsAreArray(all));
  };
  EXPECT_THAT(shares_by_memory(two, std::vector<CardMemory>{{"A", 24}, {"B", 12}}, 0),
              equal_to({2.0 / 3, 1.0 / 3}));
  EXPECT_THAT(shares_by_memory(two, std::vector<CardMemory>{{"A", 24}, {"B", 12}}, 4),
              equal_to({20.0 / 28, 8.0 / 28}));
  // The second worker of A found the model of the first one there.
  EXPECT_THAT(shares_by_memory(two, std::vector<CardMemory>{{"A", 20}, {"B", 12}, {"A", 24}}, 4),
              equal_to({16.0 / 24, 8.0 / 24}));
  EXPECT_THAT(shares_by_memory(std::vector<std::string>{"A", "B", "A"},
                               std::vector<CardMemory>{{"A", 24}, {"B", 12}}, 0),
              equal_to({1.0 / 3, 1.0 / 3, 1.0 / 3}));
  EXPECT_THAT(shares_by_memory(two, std::vector<CardMemory>{{"A", 100}, {"B", 50}}, 50),
              equal_to({50.0 / 51, 1.0 / 51}))
      << "a full card";
}

TEST(SharesByMemory, AreEqualIfThereIsNothingToChooseBy) {
  const std::vector<std::string> two{"A", "B"};
  EXPECT_EQ(shares_by_memory(two, std::vector<CardMemory>{{"A", 24}}, 0), std::nullopt)
      << "nobody measured B";
  EXPECT_EQ(shares_by_memory(two, std::vector<CardMemory>{{"A", 24}, {"B", 0}}, 0), std::nullopt);
  EXPECT_EQ(shares_by_memory(std::vector<std::string>{"A", "A"}, std::vector<CardMemory>{{"A", 24}}, 0),
            std::nullopt);
  EXPECT_EQ(shares_by_memory(std::vector<std::string>{"", ""}, {}, 0), std::nullopt);
}

}  // namespace
}  // namespace paceline::coordinator
