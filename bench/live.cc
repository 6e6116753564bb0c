#include "bench/live.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "paceline/base/event_loop.h"
#include "paceline/formats/config/coordinator_settings.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/processes/compute/board_readers.h"
#include "paceline/processes/compute/group_member.h"
#include "paceline/processes/coordinator_process/coordinator_server.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/rpc/link_keys.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/processes/server_process/server_role.h"
#include "paceline/records/store/state_text.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::bench {

namespace {

using std::chrono::steady_clock;

const rpc::Access kAccess{std::nullopt, "the-token-of-a-benchmark"};

// The token, in the place from which the server's role reads it. Open for as long as this process.
std::string token_file() {
  const int file = memfd_create("token", 0);
  if (fchmod(file, 0600) != 0) die(absl::InternalError("cannot keep the token from others"));
  if (write(file, kAccess.token.data(), kAccess.token.size()) < 0)
    die(absl::ResourceExhaustedError("no memory"));
  return fmt::format("/proc/{}/fd/{}", getpid(), file);
}

// A worker that computes nothing. The first one writes its rounds' times, in ms, to `times`.
void work(const std::string& address, const std::string& name, std::int64_t floats, int times) {
  const auto stub = peer::coordinator_stub(address, kAccess);
  peer::WorkerConnection connection([&](grpc::ClientContext* context) {
    rpc::introduce(*context, kAccess);
    return stub->Work(context);
  });
  wire::WorkerMessage message;
  message.mutable_hello()->set_name(name);
  connection.send(message);
  connection.next();
  ps::Layout layout;
  // Several tensors, as models have.
  for (int i = 0; i < 8; ++i) layout.add(fmt::format("t{}", i), ps::TensorKind::kParameter, {floats / 8});
  auto gradient = must(memory::GradientWriter::create(layout.size()));
  for (float& value : gradient.gradient()) value = 1e-6f;
  message.mutable_attached()->set_dataset_size(1 << 30);
  *message.mutable_attached()->mutable_layout() = wire::to_wire(layout);
  message.mutable_attached()->set_gradient_path(gradient.path());
  connection.send(message);
  const auto order = connection.next();
  auto boards = must(compute::BoardReaders::open(order->boards(), layout, false));
  message.mutable_joined();
  connection.send(message);

  compute::GroupMember group(gradient, layout.size());
  auto last = steady_clock::now();
  std::int32_t replica = 0;
  while (const auto next = connection.next()) {
    if (next->has_reduce()) {
      const Version version(next->reduce().version());
      if (!group.reduce(next->reduce(), [&] { return boards.published(version); }).ok()) break;
      continue;
    }
    if (next->has_disconnect()) die(absl::UnavailableError(next->disconnect().why()));
    if (next->has_role()) {
      replica = next->role().replica();
      message.mutable_role_taken()->set_replica(replica);
      connection.send(message);
      continue;
    }
    if (!next->has_release()) break;
    const auto weights = boards.pin(Version(next->release().version()), std::chrono::seconds(60));
    boards.unpin();
    gradient.stamp(Clock(next->release().clock()));
    const double ms = ms_since(last);
    last = steady_clock::now();
    if (times >= 0 && write(times, &ms, sizeof ms) != sizeof ms) break;
    message.mutable_ready()->set_clock(next->release().clock());
    message.mutable_ready()->set_base(weights->version.value());
    message.mutable_ready()->set_compute_ns(1);
    message.mutable_ready()->set_replica(replica);
    connection.send(message);
  }
}

struct NoCheckpoints final : store::CheckpointSink {
  absl::StatusOr<std::string> begin(Version) override {
    return absl::UnimplementedError("benchmarks write no checkpoint");
  }
  absl::Status finish(const control::ControllerState&, Duration) override { return absl::OkStatus(); }
  void give_up() override {}
};

// The coordinator's process: hosts it until it is killed, and writes its address to `address_out`.
void coordinate(int address_out, const LiveJob& job) {
  const std::string toml = fmt::format(
      "batch = 32\nepochs = 1\n[evaluate]\nevery_epochs = 1\n[[device]]\ncount = {}\n"
      "[cluster]\nhosts = {}\nseal = {}\n{}{}",
      job.workers, job.hosts, job.fabric == "sealed",
      job.fabric == "sealed" ? "" : fmt::format("fabric = \"{}\"\n", job.fabric), job.cluster);
  NoCheckpoints checkpoints;
  EventLoop loop;
  coordinator_process::Coordinator coordinator(
      loop, {.attempt = {.job = config::coordinator_settings(must(config::parse_job(toml, "bench"))),
                         .job_toml = toml,
                         .attempt = "1",
                         .state_text = store::state_text(),
                         .new_key = rpc::new_link_key},
             .checkpoints = &checkpoints});
  const auto server = must(coordinator_process::CoordinatorServer::start(
      must(rpc::listen_for_job(job.address(0) + ":0")), loop, &coordinator,
      {.access = kAccess, .status = [](const auto&, auto&) {}, .notice = [](const auto&) {}}));
  const std::string line = server->address() + "\n";
  if (write(address_out, line.data(), line.size()) < 0) return;
  loop.run(std::chrono::milliseconds(100), [&] { coordinator.tick(); });
}

}  // namespace

pid_t in_child(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  std::fflush(nullptr);
  _exit(0);
}

std::vector<double> read_doubles(int fd, int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::size_t have = 0;
  const std::size_t want = values.size() * sizeof(double);
  while (have < want) {
    const ssize_t got = read(fd, reinterpret_cast<char*>(values.data()) + have, want - have);
    if (got <= 0) die(absl::UnavailableError("a benchmark's process ended early"));
    have += static_cast<std::size_t>(got);
  }
  return values;
}

std::vector<double> live_rounds_ms(const LiveJob& job, int rounds) {
  std::array<int, 2> address_pipe{};
  std::array<int, 2> times_pipe{};
  if (pipe(address_pipe.data()) != 0 || pipe(times_pipe.data()) != 0)
    die(absl::ResourceExhaustedError("cannot make a pipe"));
  std::vector<pid_t> children;
  const auto on_host = [&](int host, const std::function<void()>& body) {
    children.push_back(in_child([&] {
      job.enter(host);
      body();
    }));
  };
  on_host(0, [&] { coordinate(address_pipe[1], job); });
  std::string address;
  for (char byte = 0; read(address_pipe[0], &byte, 1) == 1 && byte != '\n';) address.push_back(byte);
  for (int host = 0; host < job.hosts; ++host) {
    on_host(host, [&] {
      const std::string exchange = job.hosts > 1 ? job.address(host) : "";
      // The server keeps its shard as in a run.
      const auto keep = must(ipc::DescriptorKeep::open());
      const auto [in, out] = keep.ends();
      const absl::Status status = server_process::run_server({.reach = {address, "", token_file()},
                                                              .shard = host,
                                                              .exchange = exchange,
                                                              .keep = {dup(in), dup(out)},
                                                              .fabric = job.fabric});
      if (!status.ok()) die(status);
    });
  }
  for (int i = 0; i < job.workers; ++i) {
    on_host(i * job.hosts / job.workers,
            [&] { work(address, fmt::format("w{}", i), job.floats, i == 0 ? times_pipe[1] : -1); });
  }
  close(times_pipe[1]);
  std::vector<double> times = read_doubles(times_pipe[0], rounds + kWarmRounds);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (const int fd : {address_pipe[0], address_pipe[1], times_pipe[0]}) close(fd);
  times.erase(times.begin(), times.begin() + kWarmRounds);
  return times;
}

}  // namespace paceline::bench
