// The message to a worker about a release, without any process. stage_links_test.cc has the roles.
#include "paceline/processes/coordinator/worker_orders.h"

#include <gtest/gtest.h>

#include "paceline/formats/wire/wire.h"

namespace paceline::coordinator {
namespace {

TEST(WorkerOrders, AReleaseTakesItsLeaseAndWhatIsReservedAlong) {
  control::Release release{
      .replica = ReplicaId(1), .clock = Clock(2), .version = Version(3), .lease = {4, 5, 9}, .why = {}};
  const Time now = Time{} + Duration(7);
  EXPECT_EQ(release_order(release, now).release().ahead_size(), 0);
  release.ahead = {{4, 9, 13}, {5, 0, 4}};
  const wire::WorkerRelease message = release_order(release, now).release();
  EXPECT_EQ(*from_wire(message.lease()), release.lease);
  ASSERT_EQ(message.ahead_size(), 2);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*from_wire(message.ahead(i)), release.ahead[std::size_t(i)]);
}

}  // namespace
}  // namespace paceline::coordinator
