// The port of a job that another process may still have.
#include "paceline/processes/rpc/port.h"

#include <chrono>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/listening_socket.h"

namespace paceline::rpc {
namespace {

using testing::HasSubstr;

TEST(PortOfAJob, IsWaitedForIfItBecomesFree) {
  std::optional<ListeningSocket> before = listen_at("127.0.0.1:0").value();
  const std::string address = before->address;
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    before.reset();
  });
  EXPECT_EQ(listen_for_job(address).value().address, address);
  ends.join();
}

TEST(PortOfAJob, IsRefusedIfItStaysTaken) {
  const ListeningSocket taken = listen_at("127.0.0.1:0").value();
  EXPECT_THAT(std::string(listen_for_job(taken.address).status().message()),
              HasSubstr("Address already in use; the port is taken"));
}

}  // namespace
}  // namespace paceline::rpc
