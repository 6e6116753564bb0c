// The certificates of jobs: the identity that they name, who signed them, which files are written, and what
// is refused.
#include "paceline/transport/security/certificates.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/transport/security/certificate_text.h"
#include "paceline/transport/security/testing/temp_folder.h"

// Replaces the C library's rename(), so that a process can be killed between any two renames.
namespace {
int renames_to_live = -1;

int count_rename(int result) {
  if (result == 0 && renames_to_live > 0 && --renames_to_live == 0) kill(getpid(), SIGKILL);
  return result;
}
}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  return count_rename(static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)));
}
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  return count_rename(static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags)));
}

namespace paceline::security {
namespace {

void die_after_renames(int count) { renames_to_live = count; }

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

class Certificates : public ::testing::Test {
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

// The files in a folder and their contents, by name.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    files[entry.path().string()] = entry.is_regular_file() ? text_of(entry.path()) : "";
  return files;
}

TEST_F(Certificates, LeaveNothingAfterAFailure) {
  for (const char* job : {"authority.key", "authority.crt"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(make(job).status())) << job;
    EXPECT_FALSE(fs::exists(dir_)) << job;
  }
  // There is a file at the place of the job's folder.
  fs::create_directory(dir_);
  std::ofstream(dir_ / "mnist") << "a file";
  const auto before = files_in(dir_);
  for (const bool force : {false, true}) {
    const auto made = make("mnist", force);
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(std::string(made.status().message()).find('\n'), std::string::npos) << made.status();
    EXPECT_EQ(files_in(dir_), before);
  }
}

// A folder that cannot be looked into, as another user's, is no reason to end without a line.
TEST_F(Certificates, AFolderThatCannotBeLookedIntoIsNamed) {
  fs::create_symlink(dir_, dir_);
  const auto made = make("mnist");
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(std::string(made.status().message()).starts_with(dir_.string())) << made.status();
  fs::remove(dir_);
}

// The error names the file that the user knows, not the staged one.
TEST_F(Certificates, AFileThatCannotBeWrittenIsNamed) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = signal(SIGXFSZ, SIG_IGN);
  const rlimit little{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto made = make("mnist");
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old);
  const std::string says(made.status().message());
  EXPECT_EQ(says.find(".partial"), std::string::npos) << says;
  EXPECT_TRUE(says.starts_with(dir_.string() + "/")) << says;
  EXPECT_NE(says.find("raise it and try again"), std::string::npos) << says;
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(Certificates, AnAuthorityIsReplacedOnceThereIsAnother) {
  ASSERT_TRUE(make("mnist").ok());
  const auto before = files_in(dir_);
  // The file that is written last cannot be written.
  fs::remove(dir_ / "mnist" / "authority.crt");
  fs::create_directories(dir_ / "mnist" / "authority.crt" / "folder");
  EXPECT_FALSE(make("mnist", true).ok());
  auto after = files_in(dir_);
  for (const auto& [name, bytes] : before) {
    EXPECT_TRUE(fs::is_directory(name) || after[name] == bytes) << name;
  }
  EXPECT_EQ(after.size(), before.size() + 1) << "nothing is left over";
}

// A process is killed after each of its renames, and then another one makes certificates here.
TEST_F(Certificates, AreFinishedAfterAKilledProcess) {
  ASSERT_TRUE(make("mnist").ok());
  bool killed = true;
  for (int renames = 1; killed; ++renames) {
    SCOPED_TRACE(renames);
    ASSERT_LT(renames, 100);
    const std::string before = text_of(dir_ / "authority.crt");
    const pid_t child = fork();
    if (child == 0) {
      die_after_renames(renames);
      _exit(make("mnist", true).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status);
    EXPECT_TRUE(killed || WEXITSTATUS(status) == 0);
    const auto other = make(fmt::format("other{}", renames));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(other->new_authority);
    EXPECT_NE(text_of(dir_ / "authority.crt"), before);
    for (const Role role : kRoles) {
      const auto one = read_credentials(dir_ / "mnist", role);
      ASSERT_TRUE(one.ok()) << one.status();
      EXPECT_EQ(one->authority, text_of(dir_ / "authority.crt"));
      EXPECT_EQ(X509_verify(certificate_of(one->certificate).get(),
                            X509_get0_pubkey(certificate_of(one->authority).get())),
                1);
    }
    EXPECT_FALSE(fs::exists(dir_ / ".placing"));
  }
}

// A folder that cannot be looked into, for whatever reason.
TEST_F(Certificates, AFolderThatLeadsNowhereIsAnError) {
  const fs::path loop = folder_.path() / "loop";
  fs::create_symlink("loop", loop);
  const auto made = make_certificates({loop, "a"});
  EXPECT_NE(std::string(made.status().message()).find(loop.string()), std::string::npos) << made.status();
}

TEST_F(Certificates, HalfAnAuthorityIsNotReplaced) {
  ASSERT_TRUE(make("mnist").ok());
  fs::remove(dir_ / "authority.key");
  EXPECT_TRUE(absl::IsNotFound(make("other").status()));
}

TEST_F(Certificates, NameFilesThatCannotBeUsed) {
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

void expect_said(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
}

TEST_F(Certificates, NameWhatHasExpired) {
  ASSERT_TRUE(make("old", false, -1).ok() == false);
  const absl::Status old = read_credentials(dir_ / "old", Role::kWorker).status();
  expect_said(old, "old/worker.crt: has expired on");
  expect_said(old, "remove " + (dir_ / "old").string() + ", run `paceline certs`");
  const CertificateRequest all{.dir = folder_.path(), .job = "all", .days = -2, .authority_days = -1};
  ASSERT_FALSE(make_certificates(all).ok());
  const absl::Status read = read_credentials(folder_.path() / "all", Role::kWorker).status();
  expect_said(read, "all/authority.crt: has expired on");
  expect_said(read, "--force");
}

// A job's folder is made anew under the same authority.
TEST_F(Certificates, AreRenewedForAsLongAsIsAskedFor) {
  ASSERT_TRUE(make("mnist", false, 30).ok());
  fs::remove_all(dir_ / "mnist");
  const auto renewed = make("mnist", false, 365);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_FALSE(renewed->new_authority);
  EXPECT_NEAR(static_cast<double>(renewed->expire - std::time(nullptr)), 365 * 86400.0, 120);
}

TEST_F(Certificates, HaveAnAuthorityThatLivesAtLeastAsLong) {
  const auto made = make("mnist", false, 36500);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NEAR(static_cast<double>(made->expire - std::time(nullptr)), 36500 * 86400.0, 120);
}

TEST_F(Certificates, NoneAreMadeThatWouldOutliveTheirAuthority) {
  ASSERT_TRUE(make_certificates({.dir = dir_, .job = "short", .days = 5, .authority_days = 10}).ok());
  EXPECT_TRUE(make("as-long", false, 9).ok());
  const absl::Status refused = make("longer", false, 30).status();
  const std::time_t end = expiry_of(read_certificate(dir_ / "authority.crt")->get());
  expect_said(refused, "authority.crt: ends on " + day_of(end));
  expect_said(refused, "at most");
  expect_said(refused, "--force");
  EXPECT_FALSE(fs::exists(dir_ / "longer"));
  EXPECT_TRUE(make("longer", true, 30).ok());
}

TEST_F(Certificates, NoneAreMadeByAnAuthorityThatHasExpired) {
  ASSERT_FALSE(make_certificates({.dir = dir_, .job = "old", .days = -1, .authority_days = -1}).ok());
  const absl::Status refused = make("new", false, 30).status();
  expect_said(refused, "--force");
  EXPECT_EQ(std::string(refused.message()).find("--days"), std::string::npos) << refused;
  EXPECT_FALSE(fs::exists(dir_ / "new"));
}

// A certificate with any one byte flipped is read or refused; it never causes a crash and never names another
// identity.
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
