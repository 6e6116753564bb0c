#include "paceline/decisions/coordinator/link_watch.h"

#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Received received(std::int64_t bytes, std::int64_t busy_ns, std::int64_t times) {
  Received one;
  one.bytes = bytes;
  one.busy = Duration(busy_ns);
  one.times = times;
  return one;
}

Received from_worker(const std::string& worker, Received one) {
  one.worker = worker;
  return one;
}

Received from_server(int host, Received one) {
  one.host = ServerId(host);
  return one;
}

// Worker "wN" is on host N.
std::optional<HostPlace> host_of(const Received& one) {
  if (one.worker.empty()) return HostPlace(one.host.value());
  if (one.worker == "nobody") return std::nullopt;
  return HostPlace(one.worker.back() - '0');
}

class LinkWatchTest : public testing::Test {
 protected:
  std::vector<std::string> hear(const Received& one, const std::string& process = "w1", int host = 1) {
    Heartbeat beat;
    beat.received.push_back(one);
    std::vector<std::string> lines;
    for (const control::LinkMeasured& told : watch_.heard(process, HostPlace(host), beat, host_of)) {
      lines.push_back(fmt::format("{}{} to {}: {} in {}", told.shared ? "beside others " : "", told.from,
                                  told.to, told.bytes, told.took.count()));
    }
    return lines;
  }
  LinkWatch watch_{3};
};

TEST_F(LinkWatchTest, ReportsTheAveragePayloadOfStages) {
  EXPECT_THAT(hear(from_worker("w0", received(1000, 50, 2))), ElementsAre("0 to 1: 500 in 25"));
  EXPECT_THAT(hear(from_worker("w0", received(1600, 90, 4))), ElementsAre("0 to 1: 300 in 20"));
  EXPECT_THAT(hear(from_worker("w0", received(1600, 90, 4))), IsEmpty()) << "nothing came";
  EXPECT_THAT(hear(from_worker("w0", received(1700, 99, 4))), ElementsAre("0 to 1: 100 in 9"))
      << "without a pause";
}

TEST_F(LinkWatchTest, TellsWhoSentToWhomApart) {
  EXPECT_THAT(hear(from_worker("w0", received(1000, 50, 1))), ElementsAre("0 to 1: 1000 in 50"));
  EXPECT_THAT(hear(from_worker("w2", received(10, 5, 1))), ElementsAre("2 to 1: 10 in 5"));
  EXPECT_THAT(hear(from_worker("w0", received(2000, 70, 2)), "w3", 3), ElementsAre("0 to 3: 1000 in 35"));
  EXPECT_THAT(hear(from_worker("w0", received(1500, 60, 2))), ElementsAre("0 to 1: 500 in 10"));
}

TEST_F(LinkWatchTest, ReportsEveryThirdHeartbeatOfServersIfThereAreThreeHosts) {
  constexpr std::int64_t kBytes = 1 << 20;
  std::vector<std::string> told;
  for (int i = 1; i <= 6; ++i) {
    const auto now = hear(from_server(0, received(i * kBytes, i * i * 1000, i)), "server1");
    told.insert(told.end(), now.begin(), now.end());
  }
  EXPECT_THAT(told,
              ElementsAre("beside others 0 to 1: 1048576 in 3000", "beside others 0 to 1: 1048576 in 9000"));
}

TEST_F(LinkWatchTest, IgnoresSmallPayloadsOfServers) {
  for (int i = 1; i <= 6; ++i)
    EXPECT_THAT(hear(from_server(0, received(1000 * i, i, i)), "server1"), IsEmpty());
}

TEST_F(LinkWatchTest, AProcessThatCameAgainCountsAnew) {
  hear(from_worker("w0", received(1000, 50, 2)));
  EXPECT_THAT(hear(from_worker("w0", received(300, 20, 1))), IsEmpty());
  EXPECT_THAT(hear(from_worker("w0", received(500, 30, 2))), ElementsAre("0 to 1: 200 in 10"));
}

TEST_F(LinkWatchTest, IgnoresImpossibleReports) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(hear(from_worker("nobody", received(1000, 50, 1))), IsEmpty());
  EXPECT_THAT(hear(from_worker("w1", received(1000, 50, 1))), IsEmpty()) << "itself";
  EXPECT_THAT(hear(from_worker("w0", received(-kMost, 50, 1))), IsEmpty());
  EXPECT_THAT(hear(from_worker("w0", received(kMost, kMost, kMost))), IsEmpty()) << "after that";
  EXPECT_THAT(hear(from_worker("w2", received(1000, 0, 1))), IsEmpty()) << "in no time";
  EXPECT_THAT(hear(from_worker("w3", received(1, 1, kMost))), IsEmpty()) << "less than a byte at a time";
}

}  // namespace
}  // namespace paceline::coordinator
