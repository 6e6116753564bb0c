#include "paceline/doctor/link_probe.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::doctor {
namespace {

using namespace std::chrono_literals;

ProbeEnd sealed_end(bool listens) {
  transport::LinkKeys keys;
  keys.send.fill(std::byte(listens ? 1 : 2));
  keys.receive.fill(std::byte(listens ? 2 : 1));
  return {"127.0.0.1", transport::Fabric::kSealed, keys};
}

void expect_figures(const ProbeEnd& listens, const ProbeEnd& connects) {
  const auto listener = ProbeListener::open(listens);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::jthread other([&] { (*listener)->serve([] { return false; }, 60s); });
  const auto figures = probe(connects, (*listener)->address(), 60s);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_GT(figures->round_trip_us, 0);
  EXPECT_GT(figures->there_mb_s, 0);
  EXPECT_GT(figures->back_mb_s, 0);
}

TEST(LinkProbe, MeasuresSealedLinks) { expect_figures(sealed_end(true), sealed_end(false)); }

TEST(LinkProbe, MeasuresLinksInTheClear) {
  for (const transport::Fabric fabric : {transport::Fabric::kTcp, transport::Fabric::kUcx})
    expect_figures({"127.0.0.1", fabric}, {"127.0.0.1", fabric});
}

TEST(LinkProbe, SaysWhyThereIsNoLink) {
  std::string address;
  {
    const auto listener = ProbeListener::open(sealed_end(true));
    ASSERT_TRUE(listener.ok()) << listener.status();
    address = (*listener)->address();
  }
  const auto figures = probe(sealed_end(false), address, 60s);
  EXPECT_THAT(std::string(figures.status().message()), ::testing::HasSubstr(address));
}

TEST(LinkProbe, OtherKeysAreNoLink) {
  const auto listener = ProbeListener::open(sealed_end(true));
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::atomic<bool> enough = false;
  std::jthread other([&] { (*listener)->serve([&] { return enough.load(); }, 60s); });
  EXPECT_FALSE(probe(sealed_end(true), (*listener)->address(), 60s).ok());
  enough = true;
}

TEST(LinkProbe, AListenerThatIsNeededNoMoreStops) {
  const auto listener = ProbeListener::open(sealed_end(true));
  ASSERT_TRUE(listener.ok()) << listener.status();
  int asked = 0;
  (*listener)->serve([&] { return ++asked > 2; }, 60s);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace paceline::doctor
