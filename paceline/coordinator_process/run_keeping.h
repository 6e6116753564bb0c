// What the host that would lead the run next has of it: its launcher (launch/run_keeper.h) comes here and
// gets the journal, then every change to it, and hears of each checkpoint that counts.
//
// Invariant: nothing that is ordered after flush() is on this host alone, while a keeper is here. A
// keeper that does not answer is given up after a while; the run goes on without one, and says so.
//
// The loop's thread, but for serve(), which any number of threads call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/places.h"
#include "paceline/rpc/blocking_call.h"
#include "paceline/runs/leader.h"
#include "paceline/store/journal_copy.h"
#include "paceline/store/run_folder.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator_process {

class RunKeeping {
 public:
  using Call = rpc::BlockingCall<wire::KeeperMessage, wire::KeepOrder>;

  struct Options {
    store::RunPaths run;
    std::optional<HostRank> keeper{};  // nothing: nobody is to keep it
    // Of the run's journal: makes it last, and takes what it logged since.
    std::function<absl::Status()> flush;
    std::function<std::string()> take_log;
    std::function<void(const std::string&)> news;    // one line for people
    std::chrono::milliseconds patience{5000};        // with a keeper that does not answer
    std::chrono::milliseconds first_patience{3000};  // with one that has not come yet
  };

  explicit RunKeeping(Options options);

  // Lets a keeper that has come begin, and hands on what the journal logged. Requires: the journal is
  // flushed.
  void look();
  // Flushes, and waits until the keeper has it. Errors: the journal's.
  absl::Status flush();
  // A checkpoint counts from now on.
  void counted(const std::string& dir, const std::vector<std::string>& files);
  // Whether the checkpoint that counted last is worth waiting for until the keeper has it: it fetches that,
  // or may still come. Asked again and again, until it is not.
  bool awaits_copy();
  // The run has ended: the keeper is told, if it still answers.
  void over();
  std::optional<HostRank> keeper() const { return options_.keeper; }
  // Where the keeper would lead the run from; nothing while it does not keep it.
  std::string next_leader() const;

  // A keeper's call. Errors: it is another host's.
  absl::Status serve(Call& call);

 private:
  // One that has come; a later one takes its place.
  struct Keeper {
    std::string address;
    std::optional<store::JournalSnapshot> snapshot{};
    bool begun = false;
    bool gone = false;
    std::deque<std::string> statements{};
    std::int64_t handed = 0;  // batches of statements; the snapshot is the first
    std::int64_t kept = 0;
    std::int64_t steps = 0;  // whatever it does: it answers
    std::optional<wire::CheckpointToKeep> checkpoint{};
    wire::CheckpointFetched fetched{};  // last
    bool over = false;
  };
  // What a keeper is to have, or one that has not come.
  struct Awaited {
    std::int64_t steps;  // of the keeper; −1: there is none
    std::chrono::steady_clock::time_point until;
  };

  bool here() const { return keeper_ != nullptr && !keeper_->gone; }
  std::chrono::steady_clock::time_point patience_until(std::optional<Awaited>& awaited) const;
  void lose(Keeper& keeper);
  void hear(Call& call, Keeper& keeper);
  absl::Status tell(Call& call, Keeper& keeper);
  absl::StatusOr<wire::RunToKeep> run_to_keep() const;
  absl::Status send_journal(Call& call, Keeper& keeper, const store::JournalSnapshot& snapshot);
  void send_changes(Call& call, Keeper& keeper);
  bool wait_until_kept(std::unique_lock<std::mutex>& lock);
  void say_who_keeps(bool kept);

  const Options options_;
  std::atomic<int> passed_ = 0;  // snapshots
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Keeper> keeper_;
  std::optional<wire::CheckpointToKeep> newest_;  // checkpoint
  std::optional<Awaited> awaited_;                // a copy of that
  bool waited_ = false;                           // for the first one
  bool said_nobody_ = false;
  std::string trouble_;  // of the keeper that came last
};

}  // namespace paceline::coordinator_process
