// Tests which checkpoints count, which are left out, and whose errors come through.
#include "paceline/decisions/coordinator/checkpoints.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointsTest : public testing::Test {
 protected:
  using Failed = std::optional<Checkpoints::Failed>;

  // Its folder is opened at once.
  void request(std::int64_t version) {
    control::ControllerState state;
    state.version = Version(version);
    checkpoints_.request(state, Duration(100 + version));
  }
  Failed opened(const absl::StatusOr<std::string>& folder) { return checkpoints_.opened(folder); }
  Failed written(std::int32_t server, std::int64_t version, const std::string& error = "") {
    return checkpoints_.written(ServerId(server), {Version(version), error});
  }
  // The actions, in order.
  std::vector<std::string> said() {
    for (const Action& action : out_.take()) {
      if (const auto* open = std::get_if<OpenCheckpoint>(&action))
        said_.push_back(fmt::format("open {}", open->version));
      if (const auto* count = std::get_if<CountCheckpoint>(&action))
        said_.push_back(fmt::format("count {} at {}", count->state.version, count->elapsed.count()));
      if (std::holds_alternative<DropCheckpoint>(action)) said_.emplace_back("drop it");
    }
    return std::exchange(said_, {});
  }

  std::vector<std::string> said_;
  Outbox out_;
  Checkpoints checkpoints_{2,
                           [this](const ServerOrder& order) {
                             const auto* const drop = std::get_if<Drop>(&order);
                             EXPECT_TRUE(drop == nullptr || drop->checkpoint);
                             const auto* const write = std::get_if<WriteCheckpoint>(&order);
                             said_.push_back(drop != nullptr
                                                 ? fmt::format("drop {}", drop->version)
                                                 : fmt::format("write {} to {}", write->version, write->dir));
                           },
                           out_, Version(3)};
};

// A server is lost in the moment in which a checkpoint is due: the opened folder is not needed.
TEST_F(CheckpointsTest, DropsACheckpointThatIsForgottenBeforeItsFolderIsOpen) {
  request(4);
  checkpoints_.forget();
  EXPECT_TRUE(checkpoints_.opening());
  EXPECT_FALSE(opened("4"));
  EXPECT_FALSE(checkpoints_.opening());
  EXPECT_THAT(said(), ElementsAre("open 4", "drop it"));
}

TEST_F(CheckpointsTest, CountsOnceEveryServerHasWritten) {
  request(4);
  EXPECT_THAT(said(), ElementsAre("open 4"));
  EXPECT_FALSE(opened("dir-4"));
  EXPECT_THAT(said(), ElementsAre("write 4 to dir-4"));
  EXPECT_FALSE(written(1, 4));
  EXPECT_FALSE(written(1, 4));
  EXPECT_THAT(said(), IsEmpty()) << "one of two servers has written";
  EXPECT_FALSE(written(0, 4));
  EXPECT_THAT(said(), ElementsAre("drop 4", "count 4 at 104"));
  EXPECT_TRUE(checkpoints_.writing());
  EXPECT_EQ(checkpoints_.newest(), Version(3));
  EXPECT_FALSE(checkpoints_.counted(absl::OkStatus()));
  EXPECT_FALSE(checkpoints_.writing());
  EXPECT_EQ(checkpoints_.newest(), Version(4));
}

TEST_F(CheckpointsTest, OneAtATimeAndEachVersionOnce) {
  request(3);
  EXPECT_THAT(said(), IsEmpty()) << "the run was resumed from it";
  request(4);
  EXPECT_FALSE(opened("dir-4"));
  request(5);
  EXPECT_THAT(said(), ElementsAre("write 4 to dir-4", "open 4")) << "in two boxes";
  EXPECT_FALSE(written(0, 5));
  EXPECT_FALSE(written(0, 4));
  EXPECT_TRUE(checkpoints_.writing()) << "nobody was asked to write version 5";
  EXPECT_FALSE(written(1, 4));
  EXPECT_FALSE(written(1, 4)) << "said twice";
  EXPECT_THAT(said(), ElementsAre("drop 4", "count 4 at 104"));
  EXPECT_FALSE(checkpoints_.counted(absl::OkStatus()));
  request(4);
  EXPECT_THAT(said(), IsEmpty());
  request(5);
  EXPECT_THAT(said(), ElementsAre("open 5"));
}

// A version that could not be written may be tried again, once no server writes it any more.
TEST_F(CheckpointsTest, ErrorsComeThroughAndEndNothing) {
  const absl::Status no_folder = absl::PermissionDeniedError("no folder");
  request(4);
  EXPECT_EQ(opened(no_folder)->why, no_folder);
  EXPECT_FALSE(checkpoints_.writing());
  request(4);
  EXPECT_FALSE(opened("dir-4"));
  EXPECT_FALSE(written(0, 4, "disk full"));
  EXPECT_TRUE(checkpoints_.writing()) << "the other server still writes";
  said();
  const Failed failed = written(1, 4, "also full");
  EXPECT_EQ(failed->version, Version(4));
  EXPECT_EQ(failed->why.message(), "disk full");
  EXPECT_THAT(said(), ElementsAre("drop 4", "drop it"));
  EXPECT_FALSE(checkpoints_.writing());
  EXPECT_EQ(checkpoints_.newest(), Version(3));
  for (const bool full : {true, false}) {
    request(4);
    EXPECT_FALSE(opened("dir-4"));
    EXPECT_FALSE(written(0, 4));
    EXPECT_FALSE(written(1, 4));
    const Failed counted =
        checkpoints_.counted(full ? absl::ResourceExhaustedError("no space") : absl::OkStatus());
    EXPECT_EQ(counted.has_value(), full);
    EXPECT_EQ(said().back(), full ? "drop it" : "count 4 at 104");
    EXPECT_EQ(checkpoints_.newest(), Version(full ? 3 : 4));
  }
}

}  // namespace
}  // namespace paceline::coordinator
