// Keeps a copy of a run that another host leads. The folder here has everything that this host needs to lead
// the run if that host does not come back. The journal follows the leader's row by row, and each checkpoint
// that counts is fetched.
//
// Invariant: as long as the copy is whole and the run has not ended, its folder has a mark, as if its leader
// had just been killed. No other process can resume it meanwhile.
//
// One thread calls; a thread of its own keeps, another one fetches checkpoints, and a third one gives signs of
// life.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include <absl/status/status.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/places.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_copy.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::launch {

class RunKeeper {
 public:
  struct Options {
    HostRank host;
    std::string address;             // the address at which its coordinator would listen, for the others
    std::filesystem::path runs_dir;  // absolute
    std::string asked{};             // the job file that this host was asked to run
    std::string run{};               // a folder from before: this host kept or led that run
  };

  explicit RunKeeper(Options options);
  ~RunKeeper();
  RunKeeper(const RunKeeper&) = delete;
  RunKeeper& operator=(const RunKeeper&) = delete;

  // Keeps the run of that coordinator, or continues to keep it from there.
  void keep(const std::string& coordinator, const rpc::Access& access);
  // Called when another host keeps the run from now on: the copy here is no longer valid.
  void leave();

  // The folder of a whole copy of a run that has not ended.
  std::optional<std::string> run() const;
  // The leader according to that copy.
  std::optional<runs::Leader> leader() const;
  // Stops, and unlocks the folder for the process that leads the run from now on.
  void stop();
  // Called when the run has ended, or goes on without this host.
  void run_is_over();

 private:
  void work(const std::stop_token& stop);
  bool keep_once(peer::Stub& stub, const rpc::Access& access, const std::stop_token& stop);
  absl::Status take(const wire::KeepOrder& order);
  absl::Status begin(const wire::RunToKeep& run);
  absl::Status take_journal(const wire::KeepOrder& order);
  // Sends a message to the leader.
  using Say = std::function<void(const wire::KeeperMessage&)>;
  // Says each second that the copy of the journal goes on, for as long as `copies`.
  void say_signs_of_life(const std::atomic<bool>& copies, const std::stop_token& stop, const Say& say);
  void fetch(peer::Stub& stub, const rpc::Access& access, const std::stop_token& stop, const Say& say);
  absl::Status fetch(const wire::CheckpointToKeep& checkpoint, peer::Stub& stub, const rpc::Access& access,
                     const std::stop_token& stop, const Say& say) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;  // waits on it end with their thread's stop token
  std::string coordinator_;              // empty: no run is to be kept
  rpc::Access access_;
  bool wanted_ = false;
  std::optional<store::RunPaths> run_;
  int kept_ = store::kKeptCheckpoints;  // checkpoint.keep of its job
  std::optional<runs::Leader> leader_;
  bool whole_ = false;
  std::optional<wire::CheckpointToKeep> to_fetch_;

  // Used by the thread that keeps.
  std::optional<FileDescriptor> lock_;
  std::unique_ptr<store::AtomicFile> incoming_;  // the journal under way
  std::uint32_t incoming_crc_ = 0;
  std::optional<store::JournalCopy> journal_;
  std::string statements_;  // statements of a transaction that is not whole yet
  wire::RunToKeep about_;

  std::jthread thread_;
};

}  // namespace paceline::launch
