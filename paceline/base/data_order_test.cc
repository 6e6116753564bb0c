#include "paceline/base/data_order.h"

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"

namespace paceline {
namespace {

DataOrder order(std::initializer_list<DataPart> parts) { return parts; }

TEST(DataOrder, OrdersThatAreNotKnownAreTheSame) {
  EXPECT_TRUE(same_data({}, order({{0, "a"}}), 100).ok());
  EXPECT_TRUE(same_data(order({{0, "a"}}), {}, 100).ok());
  EXPECT_TRUE(same_data({}, {}, 100).ok());
}

// All orders of one to three parts over six positions, with two digests: a list of digests by position is the second
// implementation.
TEST(DataOrder, EachPositionBeforeTheEndIsCompared) {
  std::vector<DataOrder> all;
  for (int cuts = 0; cuts < 32; ++cuts) {
    for (int digests = 0; digests < 64; ++digests) {
      DataOrder one;
      for (int at = 0; at < 6; ++at)
        if (at == 0 || (cuts >> (at - 1) & 1) != 0) one.push_back({at, digests >> at & 1 ? "a" : "b"});
      if (one.size() <= 3) all.push_back(std::move(one));
    }
  }
  const auto spread = [](const DataOrder& one) {
    std::string letters;
    for (std::size_t part = 0; part < one.size(); ++part) {
      const std::int64_t end = part + 1 < one.size() ? one[part + 1].from : 6;
      letters.append(static_cast<std::size_t>(end - one[part].from), one[part].digest[0]);
    }
    return letters;
  };
  constexpr std::size_t kStep = effort::kSanitized ? 49 : 7;
  for (std::size_t one = 0; one < all.size(); one += kStep) {
    for (const DataOrder& other : all) {
      for (std::int64_t until = 0; until <= 6; ++until) {
        const bool same = spread(all[one]).substr(0, until) == spread(other).substr(0, until);
        ASSERT_EQ(same_data(all[one], other, until).ok(), same) << to_text(all[one]) << "and\n"
                                                                << to_text(other) << "until " << until;
      }
    }
  }
}

TEST(DataOrder, ADifferenceIsSaidWithItsPosition) {
  const absl::Status status =
      same_data(order({{0, "a"}, {4096, "b"}}), order({{0, "a"}, {8192, "b"}}), 10000);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      std::string(status.message()),
      "the run was trained on 10000 samples, and its data are other ones from sample 4096 on (digest 'b', "
      "then 'a'): resume with the data and settings of that time, or begin a new run");
}

TEST(DataOrder, ATextIsReadBack) {
  for (const DataOrder& one :
       {order({}), order({{0, "a"}}), order({{0, "a:1"}, {5, "0f"}, {INT64_MAX, "x"}})}) {
    const auto read = data_order_from_text(to_text(one));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, one);
  }
}

TEST(DataOrder, ATextThatIsNoOrderIsRefused) {
  for (const char* text :
       {"x", "0", "0 a b", "1 a", "0 a\n0 b", "0 a\n5 b\n4 c", "-1 a", "0 \x01", "9999999999999999999 a"})
    EXPECT_EQ(data_order_from_text(text).status().code(), absl::StatusCode::kDataLoss) << text;
  std::string many;
  for (std::size_t part = 0; part <= kMostDataParts; ++part) many += std::to_string(part) + " a\n";
  EXPECT_FALSE(data_order_from_text(many).ok());
  EXPECT_FALSE(data_order_from_text("0 " + std::string(kLongestPartDigest + 1, 'a')).ok());
}

}  // namespace
}  // namespace paceline
