#include "paceline/transport/links/received.h"

#include <gtest/gtest.h>

namespace paceline::links {
namespace {

using std::chrono::milliseconds;

LinkMeter::Time at(int ms) { return LinkMeter::Time(milliseconds(ms)); }

TEST(LinkMeter, CountsFromWhenAPayloadMayCome) {
  LinkMeter meter;
  EXPECT_EQ(meter.so_far(), Received{});
  meter.ready(at(10));
  EXPECT_EQ(meter.so_far(), Received{}) << "who asks now would divide what came before by one more";
  meter.landed(at(14), 400);
  meter.ready(at(100));
  meter.landed(at(101), 50);
  EXPECT_EQ(meter.so_far(), (Received{450, milliseconds(5), 2}));
}

TEST(LinkMeter, PayloadsThatComeTogetherShareTheTime) {
  LinkMeter meter;
  meter.ready(at(10));
  meter.ready(at(11));
  meter.landed(at(14), 400);
  meter.ready(at(15));
  meter.landed(at(16), 100);
  meter.landed(at(20), 100);
  EXPECT_EQ(meter.so_far(), (Received{600, milliseconds(10), 1}));
}

}  // namespace
}  // namespace paceline::links
