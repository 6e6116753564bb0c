// The certificates of jobs: who they say one is, who signed them, what is written where, and what is refused.
#include "paceline/security/certificates.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "paceline/security/certificate_text.h"
#include "paceline/security/testing/temp_folder.h"

namespace paceline::security {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

unsigned mode_of(const fs::path& path) {
  struct stat about {};
  EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 0777;
}

class Certificates : public testing::Test {
 protected:
  absl::StatusOr<MadeCertificates> make(const std::string& job, bool force = false, int days = 365) {
    return make_certificates({dir_, job, days, force});
  }
  const TempFolder folder_;
  const fs::path dir_ = folder_.path() / "certs";
};

TEST_F(Certificates, EachRoleHasItsOwn) {
  const auto made = make("mnist");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->new_authority);
  EXPECT_EQ(made->of_job, dir_ / "mnist");
  EXPECT_NEAR(static_cast<double>(made->expire - std::time(nullptr)), 365 * 86400.0, 120);
  for (const Role role : kRoles) {
    const auto one = read_credentials(made->of_job, role);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(one->own, (Identity{"mnist", role}));
    EXPECT_EQ(one->authority, text_of(dir_ / "authority.crt"));
    const Certificate certificate = certificate_of(one->certificate);
    const Certificate authority = certificate_of(one->authority);
    EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(authority.get())), 1);
    const int wanted = role == Role::kCoordinator ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
    const int other = role == Role::kCoordinator ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER;
    EXPECT_EQ(X509_check_purpose(certificate.get(), wanted, 0), 1) << to_string(role);
    EXPECT_EQ(X509_check_purpose(certificate.get(), other, 0), 0) << to_string(role);
    EXPECT_EQ(X509_check_ca(certificate.get()), 0) << "nobody of a job can make certificates";
  }
}

TEST_F(Certificates, KeysAreForTheirOwnerOnly) {
  ASSERT_TRUE(make("mnist").ok());
  EXPECT_EQ(mode_of(dir_ / "authority.key"), 0600u);
  EXPECT_EQ(mode_of(dir_ / "mnist" / "token"), 0600u);
  for (const Role role : kRoles)
    EXPECT_EQ(mode_of(dir_ / "mnist" / (std::string(to_string(role)) + ".key")), 0600u);
}

TEST_F(Certificates, NothingIsOverwrittenUnlessAskedFor) {
  ASSERT_TRUE(make("mnist").ok());
  const std::string authority = text_of(dir_ / "authority.key");
  const std::string worker = text_of(dir_ / "mnist" / "worker.key");
  EXPECT_TRUE(absl::IsAlreadyExists(make("mnist").status()));
  EXPECT_EQ(text_of(dir_ / "mnist" / "worker.key"), worker);

  const auto other = make("cifar");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->new_authority) << "one authority for all jobs of a folder";
  EXPECT_EQ(text_of(dir_ / "authority.key"), authority);

  const auto forced = make("mnist", true);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_TRUE(forced->new_authority);
  EXPECT_NE(text_of(dir_ / "authority.key"), authority);
  EXPECT_NE(text_of(dir_ / "mnist" / "worker.key"), worker);
}

TEST_F(Certificates, HalfAnAuthorityIsNotReplaced) {
  ASSERT_TRUE(make("mnist").ok());
  fs::remove(dir_ / "authority.key");
  EXPECT_TRUE(absl::IsNotFound(make("other").status()));
}

TEST_F(Certificates, WhatCannotBeUsedIsSaid) {
  ASSERT_TRUE(make("mnist").ok());
  const fs::path dir = dir_ / "mnist";
  const auto complains = [&](const std::string& part) {
    const auto read = read_credentials(dir, Role::kWorker);
    EXPECT_FALSE(read.ok());
    EXPECT_NE(std::string(read.status().message()).find(part), std::string::npos) << read.status();
  };
  const std::string certificate = text_of(dir / "worker.crt");
  std::ofstream(dir / "worker.crt") << text_of(dir / "server.crt");
  complains("is not of the key beside it");
  std::ofstream(dir / "worker.key") << text_of(dir / "server.key");
  complains("not the certificate of a worker");
  std::ofstream(dir / "worker.crt") << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  complains("not a certificate in PEM");
  std::ofstream(dir / "worker.crt") << certificate;
  fs::remove(dir / "worker.key");
  complains("worker.key: cannot be read: No such file");
}

TEST_F(Certificates, WhatHasExpiredIsSaid) {
  ASSERT_TRUE(make("old", false, -1).ok() == false);
  const auto read = read_credentials(dir_ / "old", Role::kWorker);
  EXPECT_NE(std::string(read.status().message()).find("has expired on"), std::string::npos) << read.status();
}

// Every flipped byte of a certificate: read or refused, never a crash, and never another identity.
TEST_F(Certificates, DamageIsSeen) {
  ASSERT_TRUE(make("mnist").ok());
  const auto good = read_credentials(dir_ / "mnist", Role::kWorker);
  ASSERT_TRUE(good.ok());
  const Certificate authority = certificate_of(good->authority);
  for (std::size_t at = 0; at < good->certificate.size(); ++at) {
    std::string bytes = good->certificate;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const Certificate damaged = certificate_of(bytes);
    if (damaged == nullptr || X509_verify(damaged.get(), X509_get0_pubkey(authority.get())) != 1) continue;
    EXPECT_EQ(identity_of(damaged.get()), (Identity{"mnist", Role::kWorker})) << at;
  }
}

}  // namespace
}  // namespace paceline::security
