// What a synchronization round costs: a BSP round (push, commit, pull) of W worker processes with M MB of
// weights, on the live path: gRPC to a coordinator, a server process, shared memory; once with the server
// summing the gradients, once with the workers summing among themselves (group). Beside it, in the same run,
// what a user would pick instead (Gloo's all-reduce of the same bytes over as many processes), and the floor:
// the bare fused update on private memory. Workers compute nothing, so the round is all there is.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "bench/gloo.h"
#include "bench/table.h"
#include "paceline/base/event_loop.h"
#include "paceline/cli/board_readers.h"
#include "paceline/cli/group_member.h"
#include "paceline/cli/peer.h"
#include "paceline/cli/server_role.h"
#include "paceline/ps/fused_update.h"
#include "paceline/ps/worker_pool.h"
#include "paceline/rpc/coordinator_server.h"
#include "paceline/rpc/wire.h"
#include "paceline/transport/gradient_buffer.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

const rpc::Access kAccess{std::nullopt, "the-token-of-a-benchmark"};
constexpr int kWorkers = 4;
constexpr std::int64_t kFloatsPerMb = (1 << 20) / 4;

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

int rounds_for(std::int64_t mb) { return mb >= 256 ? 12 : mb >= 64 ? 30 : 100; }

[[noreturn]] void die(const absl::Status& status) {
  fmt::print(stderr, "bench: {}\n", std::string(status.message()));
  std::exit(2);
}

template <class T>
T must(absl::StatusOr<T> value) {
  if (!value.ok()) die(value.status());
  return *std::move(value);
}

// Runs `body` in a child process.
pid_t in_child(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  std::fflush(nullptr);
  _exit(0);
}

// The token, where the server's role reads it from. Open for as long as this process.
std::string token_file() {
  const int file = memfd_create("token", 0);
  if (write(file, kAccess.token.data(), kAccess.token.size()) < 0)
    die(absl::ResourceExhaustedError("no memory"));
  return fmt::format("/proc/{}/fd/{}", getpid(), file);
}

// A worker that computes nothing. The first one writes its rounds' times, in ms, to `times`.
void work(const std::string& address, const std::string& name, std::int64_t floats, int times) {
  const auto stub = cli::coordinator_stub(address, kAccess);
  cli::WorkerConnection connection([&](grpc::ClientContext* context) {
    rpc::show_token(*context, kAccess);
    return stub->Work(context);
  });
  rpc::wire::WorkerMessage message;
  message.mutable_hello()->set_name(name);
  connection.send(message);
  connection.next();
  ps::Layout layout;
  // Several tensors, as models have.
  for (int i = 0; i < 8; ++i) layout.add(fmt::format("t{}", i), ps::TensorKind::kParameter, {floats / 8});
  auto gradient = must(transport::GradientWriter::create(layout.size()));
  for (float& value : gradient.gradient()) value = 1e-6f;
  message.mutable_attached()->set_dataset_size(1 << 30);
  *message.mutable_attached()->mutable_layout() = rpc::to_wire(layout);
  message.mutable_attached()->set_gradient_path(gradient.path());
  connection.send(message);
  const auto order = connection.next();
  auto boards = must(cli::BoardReaders::open(order->boards(), layout, false));
  message.mutable_joined();
  connection.send(message);

  cli::GroupMember group(gradient, layout.size());
  auto last = steady_clock::now();
  while (const auto next = connection.next()) {
    if (next->has_reduce()) {
      const Version version(next->reduce().version());
      if (!group.reduce(next->reduce(), [&] { return boards.published(version); }).ok()) break;
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
    connection.send(message);
  }
}

struct NoCheckpoints final : rpc::CheckpointSink {
  absl::StatusOr<std::string> begin(Version) override {
    return absl::UnimplementedError("benchmarks write no checkpoint");
  }
  absl::Status finish(const control::ControllerState&, Duration) override { return absl::OkStatus(); }
};

// The coordinator's process: hosts it until it is killed, and says where on `address_out`.
void coordinate(int address_out, const std::string& reduction) {
  const std::string toml = fmt::format(
      "batch = 32\nepochs = 1\n[evaluate]\nevery_epochs = 1\n[[replica]]\ncount = {}\n"
      "[cluster]\nreduction = \"{}\"\n",
      kWorkers, reduction);
  NoCheckpoints checkpoints;
  EventLoop loop;
  rpc::Coordinator coordinator(loop, {.job = must(config::parse_job(toml, "bench")),
                                      .job_toml = toml,
                                      .restart = {},
                                      .listeners = {},
                                      .checkpoints = &checkpoints,
                                      .on_data_known = [](const control::ControllerConfig&) {},
                                      .notice = [](const std::string&) {},
                                      .re_planned = [](const std::string&) {}});
  const auto server = must(rpc::CoordinatorServer::start(
      "127.0.0.1:0", loop, coordinator,
      {.access = kAccess, .status = [](const auto&, auto&) {}, .notice = [](const auto&) {}}));
  const std::string line = server->address() + "\n";
  if (write(address_out, line.data(), line.size()) < 0) return;
  loop.run(std::chrono::milliseconds(100), [&] { coordinator.tick(); });
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

// The median round of the live path. Children are forked before this process has any thread.
double our_round_ms(std::int64_t mb, const std::string& reduction) {
  int address_pipe[2];
  int times_pipe[2];
  if (pipe(address_pipe) != 0 || pipe(times_pipe) != 0)
    die(absl::ResourceExhaustedError("cannot make a pipe"));
  std::vector<pid_t> children;
  children.push_back(in_child([&] { coordinate(address_pipe[1], reduction); }));
  std::string address;
  for (char byte = 0; read(address_pipe[0], &byte, 1) == 1 && byte != '\n';) address.push_back(byte);
  children.push_back(in_child([&] {
    cli::run_server({.reach = {address, "", token_file()}}).IgnoreError();
  }));
  for (int i = 0; i < kWorkers; ++i) {
    children.push_back(in_child(
        [&, i] { work(address, fmt::format("w{}", i), mb * kFloatsPerMb, i == 0 ? times_pipe[1] : -1); }));
  }
  constexpr int kWarm = 4;
  std::vector<double> times = read_doubles(times_pipe[0], rounds_for(mb) + kWarm);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (const int fd : {address_pipe[0], address_pipe[1], times_pipe[0], times_pipe[1]}) close(fd);
  times.erase(times.begin(), times.begin() + kWarm);
  return median(std::move(times));
}

double gloo_ms(std::int64_t mb) {
  int times_pipe[2];
  if (pipe(times_pipe) != 0) die(absl::ResourceExhaustedError("cannot make a pipe"));
  const std::string store =
      std::filesystem::temp_directory_path() / fmt::format("paceline-bench-{}-{}", getpid(), mb);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kWorkers; ++rank) {
    children.push_back(in_child([&, rank] {
      gloo_all_reduce(store, rank, kWorkers, mb * kFloatsPerMb, rounds_for(mb) + 2,
                      rank == 0 ? times_pipe[1] : -1);
    }));
  }
  std::vector<double> times = read_doubles(times_pipe[0], rounds_for(mb) + 2);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  close(times_pipe[0]);
  close(times_pipe[1]);
  std::filesystem::remove(store);
  times.erase(times.begin(), times.begin() + 2);
  return median(std::move(times));
}

// Private memory, aligned to a page as the shared is, so that the floor is not held up by split cache lines.
struct PrivateFloats {
  explicit PrivateFloats(std::int64_t floats, float value)
      : data(
            static_cast<float*>(std::aligned_alloc(4096, static_cast<std::size_t>(floats) * sizeof(float)))) {
    std::fill_n(data, floats, value);
  }
  PrivateFloats(const PrivateFloats&) = delete;
  ~PrivateFloats() { std::free(data); }
  float* data;
};

double floor_ms(std::int64_t mb) {
  const std::int64_t floats = mb * kFloatsPerMb;
  const PrivateFloats gradients[kWorkers] = {PrivateFloats(floats, 1e-6f), PrivateFloats(floats, 1e-6f),
                                             PrivateFloats(floats, 1e-6f), PrivateFloats(floats, 1e-6f)};
  PrivateFloats weights(floats, 1.0f);
  PrivateFloats next(floats, 1.0f);
  PrivateFloats velocity(floats, 0.0f);
  std::vector<ps::Weighted> members;
  for (const PrivateFloats& gradient : gradients) members.push_back({gradient.data, 1.0f / kWorkers});
  const ps::StepNumbers numbers = ps::step_numbers({}, 0.1, 1, 1);
  ps::WorkerPool pool(static_cast<int>(std::min(4u, std::thread::hardware_concurrency())));
  std::vector<double> times;
  for (int i = 0; i < rounds_for(mb) + 2; ++i) {
    const auto start = steady_clock::now();
    pool.share(floats, 16, [&](std::int64_t begin, std::int64_t end) {
      ps::fused_update(ps::OptimizerKind::kSgd, numbers, members,
                       {weights.data, next.data, velocity.data, velocity.data}, begin, end);
    });
    std::swap(weights.data, next.data);
    times.push_back(ms_since(start));
  }
  times.erase(times.begin(), times.begin() + 2);
  return median(std::move(times));
}

void measure(Table& table) {
  for (const std::int64_t mb : {1, 16, 64, 256}) {
    const double ours = our_round_ms(mb, "servers");
    const double group = our_round_ms(mb, "group");
    const double gloo = gloo_ms(mb);
    // In a child: this process must stay without threads, as it forks.
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) die(absl::ResourceExhaustedError("cannot make a pipe"));
    const pid_t child = in_child([&] {
      const double ms = floor_ms(mb);
      if (write(pipe_ends[1], &ms, sizeof ms) != sizeof ms) _exit(1);
    });
    const double floor = read_doubles(pipe_ends[0], 1)[0];
    waitpid(child, nullptr, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    table.add("", {{"workers", kWorkers},
                   {"mb", static_cast<double>(mb)},
                   {"round_ms", ours},
                   {"group_ms", group},
                   {"gloo_ms", gloo},
                   {"floor_ms", floor},
                   {"ratio_to_gloo", gloo / ours},
                   {"ratio_to_floor", ours / floor}});
  }
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::run(argc, argv, paceline::bench::measure); }
