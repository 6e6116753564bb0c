// When a checkpoint counts, which are left out, and whose errors come through.
#include "paceline/rpc/checkpoints.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::rpc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointsTest : public testing::Test, public CheckpointSink {
 protected:
  absl::StatusOr<std::string> begin(Version version) override {
    if (!begin_status_.ok()) return begin_status_;
    return fmt::format("dir-{}", version);
  }
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override {
    said_.push_back(fmt::format("finish {} at {}", state.version, elapsed.count()));
    return finish_status_;
  }
  void give_up() override { said_.emplace_back("give up"); }

  absl::Status request(std::int64_t version) {
    control::ControllerState state;
    state.version = Version(version);
    return checkpoints_.request(state, Duration(100 + version));
  }
  absl::Status written(std::size_t server, std::int64_t version, const std::string& error = "") {
    wire::ServerWritten message;
    message.set_version(version);
    message.set_error(error);
    return checkpoints_.written(server, message);
  }
  std::vector<std::string> said() { return std::exchange(said_, {}); }

  std::vector<std::string> said_;
  absl::Status begin_status_;
  absl::Status finish_status_;
  Checkpoints checkpoints_{
      2,
      [this](const wire::ServerOrder& order) {
        EXPECT_EQ(order.has_drop(), order.drop().checkpoint());
        said_.push_back(order.has_drop() ? fmt::format("drop {}", order.drop().version())
                                         : fmt::format("write {} to {}", order.write_checkpoint().version(),
                                                       order.write_checkpoint().dir()));
      },
      *this, Version(3)};
};

TEST_F(CheckpointsTest, CountsOnceEveryServerHasWritten) {
  EXPECT_TRUE(request(4).ok());
  EXPECT_THAT(said(), ElementsAre("write 4 to dir-4"));
  EXPECT_TRUE(written(1, 4).ok());
  EXPECT_TRUE(written(1, 4).ok());
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_TRUE(checkpoints_.writing()) << "one of two servers has written";
  EXPECT_EQ(checkpoints_.newest(), Version(3));
  EXPECT_TRUE(written(0, 4).ok());
  EXPECT_THAT(said(), ElementsAre("drop 4", "finish 4 at 104"));
  EXPECT_FALSE(checkpoints_.writing());
  EXPECT_EQ(checkpoints_.newest(), Version(4));
}

TEST_F(CheckpointsTest, OneAtATimeAndEachVersionOnce) {
  EXPECT_TRUE(request(3).ok());
  EXPECT_THAT(said(), IsEmpty()) << "the run was resumed from it";
  EXPECT_TRUE(request(4).ok());
  EXPECT_TRUE(request(5).ok());
  EXPECT_THAT(said(), ElementsAre("write 4 to dir-4"));
  EXPECT_TRUE(written(0, 5).ok());
  EXPECT_TRUE(written(0, 4).ok());
  EXPECT_TRUE(checkpoints_.writing()) << "nobody was asked to write version 5";
  EXPECT_TRUE(written(1, 4).ok());
  EXPECT_THAT(said(), ElementsAre("drop 4", "finish 4 at 104"));
  EXPECT_TRUE(request(4).ok());
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_TRUE(request(5).ok());
  EXPECT_THAT(said(), ElementsAre("write 5 to dir-5"));
}

// What could not be written may be tried again, once nobody writes to it any more.
TEST_F(CheckpointsTest, ErrorsComeThroughAndEndNothing) {
  begin_status_ = absl::PermissionDeniedError("no folder");
  EXPECT_EQ(request(4), begin_status_);
  EXPECT_FALSE(checkpoints_.writing());
  begin_status_ = absl::OkStatus();
  EXPECT_TRUE(request(4).ok());
  EXPECT_TRUE(written(0, 4, "disk full").ok());
  EXPECT_TRUE(checkpoints_.writing()) << "the other server still writes";
  said();
  EXPECT_EQ(written(1, 4, "also full").message(), "disk full");
  EXPECT_THAT(said(), ElementsAre("drop 4", "give up"));
  EXPECT_FALSE(checkpoints_.writing());
  EXPECT_EQ(checkpoints_.newest(), Version(3));
  for (const bool full : {true, false}) {
    finish_status_ = full ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
    EXPECT_TRUE(request(4).ok());
    EXPECT_TRUE(written(0, 4).ok());
    EXPECT_EQ(written(1, 4), finish_status_);
    EXPECT_EQ(checkpoints_.newest(), Version(full ? 3 : 4));
  }
}

}  // namespace
}  // namespace paceline::rpc
