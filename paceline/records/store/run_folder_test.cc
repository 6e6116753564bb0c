#include "paceline/records/store/run_folder.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paceline/records/store/files.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf, ::testing::Contains, ::testing::HasSubstr, ::testing::IsSupersetOf, ::testing::Not;

constexpr std::chrono::system_clock::time_point kNoon{
    std::chrono::milliseconds(1'735'732'800'042)};  // 2025-01-01 12:00

absl::StatusOr<RunFolder> create(const fs::path& base, const std::string& name = "cifar") {
  return RunFolder::create(base, name, "dssp:3-15", kNoon, "[job]\n");
}

TEST(RunFolder, IsMadeWithAllItNeeds) {
  const TestDirectory directory;
  const auto run = create(directory / "runs");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->paths().root, directory / "runs/cifar-20250101T120000.042Z-dssp-3-15");
  EXPECT_EQ(*read_file(run->paths().job(), 100), "[job]\n");
  EXPECT_TRUE(fs::is_directory(run->paths().checkpoints()) && fs::is_directory(run->paths().logs()));
}

TEST(RunFolder, ReplacesOddCharactersByOneDash) {
  const TestDirectory directory;
  const auto run = RunFolder::create(directory.path(), "my - ölig, one", "bsp, joint", kNoon, "");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->paths().root, directory / "my---lig-one-20250101T120000.042Z-bsp-joint");
}

TEST(RunFolder, AnExistingFolderIsNeverReused) {
  const TestDirectory directory;
  const auto first = create(directory.path());
  const auto second = create(directory.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(second->paths().root.string(), first->paths().root.string() + "-2");
}

TEST(RunFolder, ALaterOneSortsBehindTheOthersThoughTheClockWasSetBack) {
  const TestDirectory directory;
  const auto made = [&](const std::string& name, std::chrono::hours after) {
    return RunFolder::create(directory.path(), name, "bsp", kNoon + after, "")
        ->paths()
        .root.filename()
        .string();
  };
  using std::chrono::hours;
  EXPECT_EQ(made("cifar", hours(2)), "cifar-20250101T140000.042Z-bsp");
  EXPECT_EQ(made("cifar", hours(0)), "cifar-20250101T140000.043Z-bsp");
  EXPECT_EQ(made("cifar", hours(1)), "cifar-20250101T140000.044Z-bsp");
  EXPECT_EQ(made("cifar", hours(3)), "cifar-20250101T150000.042Z-bsp");
  EXPECT_EQ(made("cifar-10", hours(0)), "cifar-10-20250101T120000.042Z-bsp") << "the runs of another job";
  for (const char* no_run : {"cifar-2099", "cifar-20990101T000000.000Z", "cifar-20990101T000000-bsp"})
    fs::create_directory(directory / no_run);
  EXPECT_EQ(made("cifar", hours(4)), "cifar-20250101T160000.042Z-bsp");
}

// Root may read anything, so the test is another user for a while.
TEST(RunFolder, ThatMayNotBeReadIsNotSaidToLackAJob) {
  const TestDirectory directory;
  const fs::path root = create(directory / "runs")->paths().root;
  const uid_t before = ::geteuid();
  constexpr uid_t kNobody = 65534;
  for (const fs::path& open : {directory.path(), root.parent_path()})
    fs::permissions(open, fs::perms::owner_all | fs::perms::others_exec);
  for (const fs::path& closed : {root, root.parent_path()}) {
    fs::permissions(closed, fs::perms::none);
    if (before == 0) {
      ASSERT_EQ(::seteuid(kNobody), 0);
    }
    const absl::Status found = find_run(root).status();
    ASSERT_EQ(::seteuid(before), 0);
    fs::permissions(closed, fs::perms::owner_all | fs::perms::others_exec);
    EXPECT_EQ(found.code(), absl::StatusCode::kPermissionDenied) << found;
    EXPECT_THAT(std::string(found.message()),
                HasSubstr(root.string() + ": may not be read; check the permissions"));
  }
}

TEST(RunFolder, ANameStaysInItsDirectory) {
  const TestDirectory directory;
  for (const char* name : {"../../etc/passwd", "..", "", "a b\n", "-rf", "\xff"}) {
    const auto run = create(directory.path(), name);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->paths().root.parent_path(), directory.path());
  }
  EXPECT_TRUE(create(directory.path(), std::string(10000, 'x')).ok());
}

TEST(RunFolder, ResumesOnlyRuns) {
  const TestDirectory directory;
  EXPECT_TRUE(absl::IsNotFound(RunFolder::resume(directory / "nothing").status()));
  const auto status = RunFolder::resume(directory.path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a run folder"));
  EXPECT_EQ(directory.count(), 0);
}

TEST(RunFolder, CopiesThatKilledProcessesLeftAreRemoved) {
  const TestDirectory directory;
  const fs::path root = create(directory.path())->paths().root;
  for (const char* name : {"journal.sqlite", "journal.sqlite.partial-01234567", "journal.sqlite.to-keep-1",
                           "journal.sqlite.to-keep-1-journal", "journal.sqlite.set-aside"})
    ASSERT_TRUE(atomic_write(root / name, "a journal").ok());
  ASSERT_TRUE(RunFolder::resume(root).ok());
  const auto names = *names_in(root);
  EXPECT_THAT(names, IsSupersetOf({"journal.sqlite", "journal.sqlite.set-aside"}));
  EXPECT_THAT(names, Not(Contains(AnyOf(HasSubstr("partial"), HasSubstr("to-keep")))));
}

TEST(RunFolder, IsForItsOwnerOnly) {
  const TestDirectory directory;
  const fs::path root = create(directory.path())->paths().root;
  EXPECT_EQ(fs::status(root).permissions(), fs::perms::owner_all);
}

// The maker of the folder may want Paceline to overwrite another file.
TEST(RunFolder, NoLinkInItIsFollowed) {
  const TestDirectory directory;
  const RunPaths paths = create(directory / "runs")->paths();
  fs::create_directory(paths.tensorboard());
  for (const fs::path& part : {paths.lock(), paths.checkpoints(), paths.logs(), paths.tensorboard()}) {
    SCOPED_TRACE(part);
    const fs::path elsewhere = directory / "elsewhere";
    const bool folder = fs::is_directory(part);
    if (folder) {
      fs::create_directory(elsewhere);
    } else {
      put_bytes(elsewhere, "dear");
    }
    fs::rename(part, directory / "kept");
    fs::create_symlink(elsewhere, part);
    const absl::Status status = RunFolder::resume(paths.root).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part.string() + ": is a symbolic link"));
    if (!folder) {
      EXPECT_EQ(*read_file(elsewhere, 100), "dear");
    }
    fs::remove_all(part);
    fs::remove_all(elsewhere);
    fs::rename(directory / "kept", part);
  }
  EXPECT_TRUE(RunFolder::resume(paths.root).ok());
}

TEST(RunFolder, IsFreeAgainWhenItsObjectIsGone) {
  const TestDirectory directory;
  const fs::path root = create(directory.path())->paths().root;
  EXPECT_TRUE(RunFolder::resume(root).ok());
  EXPECT_TRUE(RunFolder::resume(root).ok());
}

// Holds the folder until it is killed or `at_most` has passed; reports to `ready` when it has it.
[[noreturn]] void hold(const fs::path& root, int ready,
                       std::chrono::milliseconds at_most = std::chrono::hours(1)) {
  const auto run = RunFolder::resume(root);
  const char ok = run.ok() ? 'y' : 'n';
  if (::write(ready, &ok, 1) != 1) ::_exit(1);
  std::this_thread::sleep_for(at_most);
  ::_exit(0);
}

// A process that was killed may hold it a little longer.
TEST(RunFolder, IsWaitedForWhileAnotherProcessStillHoldsIt) {
  const TestDirectory directory;
  const fs::path root = create(directory.path())->paths().root;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) hold(root, ends[1], std::chrono::milliseconds(500));
  char answer = 'n';
  EXPECT_EQ(::read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_TRUE(RunFolder::resume(root).ok());
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(RunFolder, BelongsToOneProcessAtATime) {
  const TestDirectory directory;
  const fs::path root = create(directory.path())->paths().root;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) hold(root, ends[1]);
  char answer = 'n';
  EXPECT_EQ(::read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');

  const auto status = RunFolder::resume(root).status();
  EXPECT_EQ(std::string(status.message()),
            fmt::format("run folder {} is in use by process {}; wait for it or choose another", root.string(),
                        child));
  EXPECT_TRUE(find_run(root).ok());
  // A process of another container has another number here, or none.
  std::ofstream(RunPaths{root}.lock()) << ::getpid() << "\n";
  EXPECT_NE(std::string(RunFolder::resume(root).status().message()).find("is in use by another process;"),
            std::string::npos);

  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(RunFolder::resume(root).ok());
}

}  // namespace
}  // namespace paceline::store
