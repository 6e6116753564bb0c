#include "paceline/transport/security/identity.h"

#include <gtest/gtest.h>

namespace paceline::security {
namespace {

TEST(Identity, ItsUriSaysAllOfIt) {
  for (const Role role : kRoles) {
    const Identity one{"mnist-3.a_b", role};
    EXPECT_EQ(identity_of(uri_of(one)), one);
  }
  EXPECT_EQ(uri_of({"mnist", Role::kWorker}), "paceline://mnist/worker");
}

TEST(Identity, NothingElseIsOne) {
  for (const char* uri :
       {"", "paceline://", "paceline:///worker", "paceline://a", "paceline://a/", "paceline://a/boss",
        "https://a/worker", "paceline://a/worker/", "paceline://a/b/worker", "PACELINE://a/worker"})
    EXPECT_FALSE(identity_of(uri)) << uri;
}

}  // namespace
}  // namespace paceline::security
