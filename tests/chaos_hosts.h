// Hosts that a job trains on while one thing after another is killed, stopped or cut off, and comes back:
// `paceline node` in network namespaces, or, if those are not permitted, directly on this machine.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/rng.h"
#include "paceline/base/testing/namespaces.h"
#include "tests/program.h"

namespace paceline::tests {

enum class Fault { kWorker, kServer, kCoordinator, kEvaluator, kHost, kHang, kLink, kGone };
inline constexpr int kFaults = 8;
inline constexpr int kStrikes = 7;  // the faults for strike(), links last
const char* name_of(Fault fault);

class ChaosHosts {
 public:
  // The job file says all but the first host's address and the credentials: `paceline certs` has written into
  // `certs`. `runs`: as in the job. `own_disks`: each host has one; `copies`: copies of the weights.
  ChaosHosts(std::filesystem::path job, std::filesystem::path certs, std::filesystem::path runs, int hosts,
             int port, bool own_disks, std::int64_t copies);

  bool can_cut_links() const { return apart_.has_value(); }
  void start();
  // False once the first host has ended.
  bool running() { return hosts_.front()->running(); }
  // Strikes once, at a victim that `rng` picks. False if there is no such victim right now. A victim is
  // stopped or cut off for up to two seconds; all are up again when this returns.
  bool strike(Fault fault, Rng& rng);
  // Kills a host that `rng` picks, for good, and removes its own disk if it has one.
  void lose_host(Rng& rng);
  // Starts workers again that have ended by themselves and that no host restarts.
  void bring_back_workers();
  // Waits for all to end, and expects that they do so in peace.
  void expect_peace();
  // The folder of runs on the host that leads in the end.
  std::filesystem::path runs() const { return lost_ == 0 && own_disks_ ? disk(1) : runs_; }

 private:
  int count() const { return static_cast<int>(hosts_.size()); }
  std::filesystem::path disk(int host) const;
  std::unique_ptr<Program> program(int host, std::vector<std::string> words) const;
  void start_host(int host, bool again);
  struct Victim {
    int host;
    pid_t process;
  };
  std::optional<Victim> victim(const std::string& word, Rng& rng) const;
  void remember_workers();

  const std::filesystem::path job_, certs_, runs_;
  const int port_;
  const bool own_disks_;
  const std::int64_t copies_;
  std::optional<paceline::testing::Namespaces> apart_;
  std::vector<std::unique_ptr<Program>> hosts_;
  std::optional<int> lost_;
  struct Worker {
    int host = 0;
    std::vector<std::string> words;  // words of the command that starts the worker
    std::unique_ptr<Program> again;  // started by us
  };
  std::map<std::string, Worker> workers_;
};

}  // namespace paceline::tests
