#include "paceline/processes/launch/own_address.h"

#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

TEST(OwnAddress, TowardsThisHostIsTheAddressItself) {
  EXPECT_EQ(own_address_towards("127.0.0.1").value(), "127.0.0.1");
  EXPECT_TRUE(own_address_towards("localhost").ok());
  EXPECT_EQ(own_address_towards("[127.0.0.1]").value(), "127.0.0.1");
}

TEST(OwnAddress, ANameThatNobodyKnowsMayYetBeKnown) {
  const auto own = own_address_towards("no-such-host.invalid");
  EXPECT_TRUE(absl::IsUnavailable(own.status())) << own.status();
  EXPECT_NE(own.status().message().find("name host 0 by its number"), std::string::npos);
}

}  // namespace
}  // namespace paceline::launch
