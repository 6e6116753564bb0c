#include "paceline/transport/links/seal.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::links {
namespace {

using links::testing::payload;
using links::testing::to_bytes;

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// McGrew and Viega, "The Galois/Counter Mode of Operation", test case 2: key, nonce and text are all zero.
TEST(Seal, IsAes128Gcm) {
  Sealer sealer(SealKey{});
  std::vector<std::byte> text(16), tag(16);
  sealer.seal(0, {}, text, text.data(), tag.data());
  EXPECT_EQ(text, from_hex("0388dace60b6a392f328c2b971b2fe78"));
  EXPECT_EQ(tag, from_hex("ab6e47d42cec13bdf53a67b21257bddf"));
}

// If another library is available, its use must not be visible from outside.
TEST(Seal, LibrariesSealAndOpenAlike) {
  SealKey key{};
  random_bytes(key);
  const auto one = openssl_aes_gcm(key), other = ipsec_mb_aes_gcm(key);
  if (other == nullptr) GTEST_SKIP() << "OpenSSL is all there is";
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 255, 256, 257, 4096, 1'000'003}) {
    for (const std::size_t head_bytes : {0, 1, 32, 288}) {
      const std::vector<std::byte> text = payload(bytes, 3), head = payload(head_bytes, 4);
      const GcmNonce nonce{9, 8, 7, static_cast<unsigned char>(head_bytes)};
      std::vector<std::byte> sealed(bytes), others(bytes);
      std::array<std::byte, kGcmTagBytes> tag{}, others_tag{};
      one->seal(nonce, head, text, sealed.data(), tag.data());
      other->seal(nonce, head, text, others.data(), others_tag.data());
      EXPECT_EQ(sealed, others) << bytes;
      EXPECT_EQ(tag, others_tag) << bytes;
      EXPECT_TRUE(other->open(nonce, head, sealed, tag)) << bytes;
      EXPECT_EQ(sealed, text);
      tag[3] ^= std::byte{1};
      EXPECT_FALSE(other->open(nonce, head, others, tag)) << bytes;
    }
  }
}

// RFC 4231, test case 2.
TEST(Seal, DerivesKeysByHmacSha256) {
  SealKey key{};
  std::memcpy(key.data(), "Jefe", 4);  // HMAC fills up a short key with zeros
  const SealKey derived = derive_key(key, to_bytes("what do ya want for nothing?"));
  EXPECT_EQ(std::vector(derived.begin(), derived.end()), from_hex("5bdcc146bf60754e6a042426089575c7"));
}

TEST(Seal, OpensOnlyWithTheSameHeadAndCount) {
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 1'000'000}) {
    SealKey key{};
    key.fill(std::byte{7});
    Sealer sealer(key);
    Opener opener(key);
    const std::vector<std::byte> text = payload(bytes, 1), head = to_bytes("head");
    std::vector<std::byte> sealed(bytes), tag(16);
    sealer.seal(5, head, text, sealed.data(), tag.data());
    const auto opens = [&](std::uint64_t count, const std::string& with, Opener& by) {
      std::vector<std::byte> copy = sealed;
      return by.open(count, to_bytes(with), copy, tag) && copy == text;
    };
    EXPECT_TRUE(opens(5, "head", opener));
    EXPECT_FALSE(opens(6, "head", opener));
    EXPECT_FALSE(opens(5, "hand", opener));
    Opener other(SealKey{});
    EXPECT_FALSE(opens(5, "head", other));
    EXPECT_TRUE(opens(5, "head", opener)) << "a frame that did not open spoils nothing";
  }
}

}  // namespace
}  // namespace paceline::links
