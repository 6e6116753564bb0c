// The rounds for benchmarks: jobs on the live path (gRPC to a coordinator, server processes, shared memory,
// exchanges between hosts), with workers that compute nothing, so that only the round is measured.
//
// Everything runs in children, which are forked before the calling process has any thread, and stay with it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>
#include <fmt/format.h>

namespace paceline::bench {

inline constexpr std::int64_t kFloatsPerMb = (1 << 20) / 4;

[[noreturn]] inline void die(const absl::Status& status) {
  fmt::print(stderr, "bench: {}\n", std::string(status.message()));
  std::exit(2);
}

template <class T>
T must(absl::StatusOr<T> value) {
  if (!value.ok()) die(value.status());
  return *std::move(value);
}

inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Runs `body` in a child process.
pid_t in_child(const std::function<void()>& body);
// Reads numbers from a child. Ends the benchmark if the child ends before.
std::vector<double> read_doubles(int fd, int count);

struct LiveJob {
  std::int64_t floats = 0;  // floats of the model, in several tensors, as models have
  int workers = 1;
  int hosts = 1;                  // each with `workers` workers and a server; the coordinator is on the first
  std::string cluster;            // further lines of [cluster]
  std::string fabric = "sealed";  // carrier of data between hosts
  // If there are several hosts: a host's address, and how a process goes there.
  std::function<std::string(int host)> address = [](int) { return std::string("127.0.0.1"); };
  std::function<void(int host)> enter = [](int) {};
};

inline constexpr int kWarmRounds = 4;

// The times of `rounds` rounds of bulk-synchronous training (push, commit, pull), in ms, after kWarmRounds
// more.
std::vector<double> live_rounds_ms(const LiveJob& job, int rounds);

}  // namespace paceline::bench
