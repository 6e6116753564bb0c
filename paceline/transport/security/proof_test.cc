#include "paceline/transport/security/proof.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace paceline::security {
namespace {

const std::string kPeers(kNonceBytes, 'p');
const std::string kCoordinators(kNonceBytes, 'c');

// HMAC-SHA256 of "peer" and the two nonces, computed with Python's hmac.
TEST(Proof, IsAnHmacOfBothNonces) {
  std::string hex;
  for (const unsigned char byte : proof_of(Side::kPeer, "token", kPeers, kCoordinators)) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  EXPECT_EQ(hex, "6903dd827b426d36c6cea64e02d977fbb82d5fcfb73103113c9f5494e3f37ccf");
}

// A side cannot send back the other side's proof, nor use it for another connection.
TEST(Proof, DependsOnTheSideTheTokenAndBothNonces) {
  std::set<std::string> proofs;
  for (const Side side : {Side::kCoordinator, Side::kPeer}) {
    for (const char* token : {"token", "token2", ""}) {
      for (const std::string& nonce : {kPeers, kCoordinators}) {
        for (const std::string& other : {kPeers, kCoordinators})
          proofs.insert(proof_of(side, token, nonce, other));
      }
    }
  }
  EXPECT_EQ(proofs.size(), 2u * 3 * 2 * 2);
}

TEST(Proof, NoncesAreRandom) {
  EXPECT_EQ(make_nonce()->size(), kNonceBytes);
  EXPECT_NE(*make_nonce(), *make_nonce());
}

TEST(Proof, AnOpeningHasANonce) {
  EXPECT_EQ(nonce_in(std::string(kOpening) + kPeers), kPeers);
  EXPECT_FALSE(nonce_in(std::string(kOpening) + kPeers + "x"));
  EXPECT_FALSE(nonce_in(std::string(kOpening) + kPeers.substr(1)));
  EXPECT_FALSE(nonce_in("PACELINE" + kPeers));
  EXPECT_FALSE(nonce_in(""));
}

}  // namespace
}  // namespace paceline::security
