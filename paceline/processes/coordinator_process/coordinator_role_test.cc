// The coordinator's process while it reads a checkpoint for long.
#include "paceline/processes/coordinator_process/coordinator_role.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/processes/rpc/single_call.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/transport/security/token.h"

namespace paceline::coordinator_process {
namespace {

namespace fs = std::filesystem;

constexpr char kRun[] = "PACELINE_TEST_RUN";
constexpr char kAddress[] = "PACELINE_TEST_ADDRESS";
constexpr char kSocket[] = "PACELINE_TEST_SOCKET";

// A file that takes minutes to read, and no room on the disk.
void write_endless(const fs::path& file) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 40;
  const std::string header =
      fmt::format(R"({{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})", kBytes / 4, kBytes);
  const std::uint64_t length = header.size();
  {
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
  }
  fs::resize_file(file, sizeof length + header.size() + kBytes);
}

// A run with a checkpoint, whose first file is endless.
store::RunPaths make_run(const fs::path& folder) {
  const store::RunPaths run{folder};
  fs::create_directories(run.checkpoints());
  fs::create_directories(run.logs());
  store::put_bytes(run.job(), "name = \"small\"\nbatch = 8\n");
  auto writer = store::CheckpointWriter::begin(folder, Version(1));
  EXPECT_TRUE(writer.ok()) << writer.status();
  ps::Layout layout;
  layout.add("w", ps::TensorKind::kParameter, {2});
  const std::vector<float> weights(static_cast<std::size_t>(layout.size()), 1);
  EXPECT_TRUE(store::write_shard(writer->directory(), 1, 1, layout, weights, {{}, 0}).ok());
  write_endless(store::weights_file(writer->directory(), 1, 1));
  store::CheckpointState state;
  state.controller = {Version(1), {.next = 8, .open = {}}, {}};
  state.samples = 8;
  state.shards = 1;
  EXPECT_TRUE(writer->finish(state).ok());
  return run;
}

// The body of another process that the test starts.
TEST(DISABLED_CoordinatorRole, Runs) {
  const absl::Status ended = run_coordinator({.run = std::getenv(kRun),
                                              .go_on = runs::GoOn::kYes,
                                              .listen = std::getenv(kAddress),
                                              .listen_fd = std::atoi(std::getenv(kSocket))});
  FAIL() << ended;
}

pid_t start_coordinator(const fs::path& run, const ListeningSocket& listening) {
  setenv(kRun, run.c_str(), 1);
  setenv(kAddress, listening.address.c_str(), 1);
  setenv(kSocket, std::to_string(listening.socket.get()).c_str(), 1);
  const pid_t child = fork();
  if (child != 0) return child;
  fcntl(listening.socket.get(), F_SETFD, 0);
  execl("/proc/self/exe", "coordinator", "--gtest_also_run_disabled_tests",
        "--gtest_filter=DISABLED_CoordinatorRole.Runs", nullptr);
  _exit(1);
}

TEST(CoordinatorRole, SaysThatItLeadsWhileItReadsItsCheckpoint) {
  const store::TestDirectory folder;
  const store::RunPaths run = make_run(folder / "run");
  const rpc::Access access{std::nullopt, security::replace_token(run.token()).value()};
  const ListeningSocket listening = rpc::listen_for_job("127.0.0.1:0").value();
  const pid_t coordinator = start_coordinator(run.root, listening);
  const auto stub =
      wire::Coordinator::NewStub(rpc::channel_to(listening.address, access, std::chrono::seconds(60)));
  grpc::ClientContext context;
  rpc::introduce(context, access);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  wire::StatusReply status;
  EXPECT_TRUE(rpc::call_once(stub->Status(&context), wire::StatusRequest(), status).ok());
  EXPECT_EQ(status.phase(), "starting: the checkpoint is read");
  EXPECT_EQ(status.run(), run.root.string());
  EXPECT_TRUE(status.line().empty());
  kill(coordinator, SIGKILL);
  EXPECT_EQ(waitpid(coordinator, nullptr, 0), coordinator);
}

}  // namespace
}  // namespace paceline::coordinator_process
