#include "paceline/tools/doctor/transfer_speed.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::doctor {
namespace {

constexpr double kMb = 1e6;

// A link of so many MB/s. One of its transfers takes longer by `pause_s`.
struct MadeUpLink {
  double mb_s;
  std::size_t slow = 1000;  // number of that transfer
  double pause_s = 0;
  std::vector<std::int64_t> transfers{};

  absl::StatusOr<double> operator()(std::int64_t bytes) {
    transfers.push_back(bytes);
    return static_cast<double>(bytes) / kMb / mb_s + (transfers.size() - 1 == slow ? pause_s : 0);
  }
};

double speed_of(MadeUpLink& link) {
  return transfer_mb_s([&](std::int64_t bytes) { return link(bytes); }).value();
}

TEST(TransferSpeed, IsThatOfATransferThatTakesLongEnough) {
  MadeUpLink link{.mb_s = 100};
  EXPECT_DOUBLE_EQ(speed_of(link), 100);
  EXPECT_GE(static_cast<double>(link.transfers.back()) / kMb / 100, 0.2);
}

TEST(TransferSpeed, IsThatOfTheLinkIfTheMachineStandsStillDuringAnyTransfer) {
  MadeUpLink undisturbed{.mb_s = 100};
  speed_of(undisturbed);
  for (std::size_t slow = 0; slow < undisturbed.transfers.size(); ++slow) {
    MadeUpLink link{.mb_s = 100, .slow = slow, .pause_s = 0.5};
    EXPECT_DOUBLE_EQ(speed_of(link), 100) << slow;
  }
}

TEST(TransferSpeed, OfASlowLinkTakesOneTransfer) {
  MadeUpLink link{.mb_s = 0.1};
  EXPECT_DOUBLE_EQ(speed_of(link), 0.1);
  EXPECT_EQ(link.transfers.size(), 1u);
}

TEST(TransferSpeed, OfTheFastestLinkIsThatOfTheLargestTransfer) {
  MadeUpLink link{.mb_s = 1e6};
  EXPECT_DOUBLE_EQ(speed_of(link), 1e6);
  EXPECT_EQ(link.transfers.back(), kMostTransfer);
}

TEST(TransferSpeed, IsAnErrorIfATransferIs) {
  const auto broken = [](std::int64_t) -> absl::StatusOr<double> { return absl::UnavailableError("gone"); };
  EXPECT_EQ(transfer_mb_s(broken).status().message(), "gone");
}

}  // namespace
}  // namespace paceline::doctor
