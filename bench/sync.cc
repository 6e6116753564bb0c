// The cost of a synchronization round: a BSP round (push, commit, pull) of W worker processes with M MB of
// weights, on the live path: gRPC to a coordinator, a server process, shared memory; once with the server
// summing the gradients, once with the workers summing among themselves (group). Beside it, in the same run,
// what a user would pick instead (Gloo's all-reduce of the same bytes over as many processes), and the floor:
// the bare fused update on private memory. Workers compute nothing, so the round is all there is.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "bench/gloo.h"
#include "bench/live.h"
#include "bench/table.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/thread_pool.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

constexpr int kWorkers = 4;
int rounds_for(std::int64_t mb) { return mb >= 256 ? 12 : mb >= 64 ? 30 : 100; }

// The median round of the live path.
double our_round_ms(std::int64_t mb, const std::string& reduction) {
  const LiveJob job{.floats = mb * kFloatsPerMb,
                    .workers = kWorkers,
                    .cluster = fmt::format("reduction = \"{}\"\n", reduction)};
  return median(live_rounds_ms(job, rounds_for(mb)));
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
  ps::ThreadPool pool(static_cast<int>(std::min(4u, std::thread::hardware_concurrency())));
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
    // The rounds run in a child, because this process must stay without threads to fork.
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
