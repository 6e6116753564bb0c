#include "paceline/transport/ipc/descriptor_service.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace paceline::ipc {
namespace {

FileDescriptor file_with(const char* text) {
  FileDescriptor file(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::pwrite(file.get(), text, 4, 0), 4);
  return file;
}

std::string read_from(const FileDescriptor& file) {
  char text[5] = {};
  EXPECT_EQ(::pread(file.get(), text, 4, 0), 4);
  return text;
}

TEST(DescriptorService, GivesTheFileThatHasTheName) {
  const auto service = DescriptorService::start().value();
  service->put("board/0", file_with("zero"), 4);
  service->put("board/1", file_with("one!"), 4);
  EXPECT_EQ(read_from(DescriptorService::get(service->address(), "board/1").value()), "one!");
  EXPECT_EQ(read_from(DescriptorService::get(service->address(), "board/0").value()), "zero");
}

TEST(DescriptorService, GivesWhatItIsStartedWith) {
  const std::string address = DescriptorService::start().value()->address();
  std::map<std::string, DescriptorService::Given> given;
  given.emplace("board/0", DescriptorService::Given{file_with("zero"), 4});
  const auto service = DescriptorService::start(address, std::move(given)).value();
  EXPECT_EQ(read_from(DescriptorService::get(address, "board/0").value()), "zero");
}

TEST(DescriptorService, NamesTheReasonIfNoFileHasTheName) {
  const auto service = DescriptorService::start().value();
  service->put("board/0", file_with("zero"), 4);
  service->remove("board/0");
  const auto got = DescriptorService::get(service->address(), "board/0");
  EXPECT_EQ(got.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(got.status().message(), "board/0: no memory has this name");
}

TEST(DescriptorService, SaysThatTheServiceIsGone) {
  std::string address;
  { address = DescriptorService::start().value()->address(); }
  EXPECT_EQ(DescriptorService::get(address, "x").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DescriptorService::get("no address", "x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DescriptorService, GivesNothingOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user for a while";
  const auto service = DescriptorService::start().value();
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  const auto got = DescriptorService::get(service->address(), "x");
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(std::string(got.status().message()), "another user listens at " + service->address());
}

TEST(DescriptorService, OutlivesAPeerThatSaysNothing) {
  const auto service = DescriptorService::start().value();
  service->put("a", file_with("here"), 4);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = service->address();
  std::copy(name.begin() + 1, name.end(), address.sun_path + 1);
  const FileDescriptor silent(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(silent.get(), reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
            0);
  // The service waits for the silent peer's line for two seconds, and a caller as long for its answer.
  for (int tries = 0; tries < 5; ++tries) {
    const auto got = DescriptorService::get(name, "a");
    if (!got.ok()) continue;
    EXPECT_EQ(read_from(*got), "here");
    return;
  }
  FAIL() << "no answer";
}

}  // namespace
}  // namespace paceline::ipc
