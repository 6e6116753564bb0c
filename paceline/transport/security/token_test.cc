#include "paceline/transport/security/token.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "paceline/transport/security/testing/temp_folder.h"

namespace paceline::security {
namespace {

TEST(Token, NoTwoAreTheSame) {
  const auto one = make_token();
  const auto other = make_token();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), 64u);
  EXPECT_FALSE(same_token(*one, *other));
  EXPECT_TRUE(same_token(*one, *one));
  EXPECT_FALSE(same_token(*one, one->substr(1)));
  EXPECT_FALSE(same_token("", *one));
}

TEST(Token, IsMadeOnceAndForItsOwnerOnly) {
  const TempFolder folder;
  const auto path = folder.path() / "token";
  EXPECT_TRUE(absl::IsNotFound(read_token(path).status()));
  const auto made = read_or_make_token(path);
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat about {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(*read_or_make_token(path), *made);
  EXPECT_EQ(*read_token(path), *made);
}

TEST(Token, IsReplacedAndNotWrittenThroughALink) {
  const TempFolder folder;
  const auto path = folder.path() / "token";
  const auto known = read_or_make_token(folder.path() / "known");
  std::filesystem::create_symlink(folder.path() / "known", path);
  const auto made = replace_token(path);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(*made, *known);
  EXPECT_EQ(*read_token(path), *made);
  EXPECT_EQ(*read_token(folder.path() / "known"), *known);
  EXPECT_FALSE(std::filesystem::is_symlink(path));
  EXPECT_FALSE(is_exposed(path));
  EXPECT_NE(*replace_token(path), *made);
}

TEST(Token, OthersThatCanReadItAreNoticed) {
  const TempFolder folder;
  const auto path = folder.path() / "token";
  EXPECT_FALSE(is_exposed(path));
  ASSERT_TRUE(read_or_make_token(path).ok());
  EXPECT_FALSE(is_exposed(path));
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_TRUE(is_exposed(path));
  ASSERT_EQ(chmod(path.c_str(), 0604), 0);
  EXPECT_TRUE(is_exposed(path));
}

// In a child, as in a container with a mounted secret: 0 if the token there is not called exposed, 1 if it is, 2 if this
// process may mount nothing.
int look_at_mounted_token(const std::string& folder) {
  const std::string path = folder + "/token";
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", folder.c_str(), "tmpfs", 0, nullptr) != 0)
    return 2;
  std::ofstream(path) << "0123456789abcdef0123456789abcdef";
  if (chmod(path.c_str(), 0440) != 0 || !is_exposed(path) ||
      mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    return 2;
  return is_exposed(path) ? 1 : 0;
}

TEST(Token, NobodyIsToldToChangeTheModeOnAReadOnlyMount) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) _exit(look_at_mounted_token(folder.path().string()));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(status, 0);
}

TEST(Token, RefusesAFileThatHasNoToken) {
  const TempFolder folder;
  const auto path = folder.path() / "token";
  for (const char* text :
       {"", "short", "0123456789abcdef 0123456789abcdef", "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20"}) {
    std::ofstream(path) << text;
    const auto token = read_token(path);
    EXPECT_TRUE(absl::IsInvalidArgument(token.status())) << text;
    EXPECT_NE(std::string(token.status().message()).find(path.string()), std::string::npos);
  }
  std::ofstream(path) << std::string(1 << 20, 'a');
  EXPECT_TRUE(absl::IsInvalidArgument(read_token(path).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(read_token(folder.path()).status()));
}

}  // namespace
}  // namespace paceline::security
