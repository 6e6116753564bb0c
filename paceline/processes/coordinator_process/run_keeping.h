// The copy of the run on the host that would lead it next, the keeper: that host's launcher
// (launch/run_keeper.h) calls this process, gets the journal and then every change to it, and hears of each
// checkpoint that counts.
//
// Invariant: while a keeper is here, nothing that is ordered after flush() is on this host alone. A keeper is
// here once it has the journal and nearly all changes since then. Copying a large journal takes minutes: the
// run goes on meanwhile as without a keeper, and says so. A keeper that does not answer is given up after a
// while.
//
// Used by the loop's thread, except serve(), which any number of threads call.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
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
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/blocking_call.h"
#include "paceline/processes/runs/leader.h"
#include "paceline/records/store/journal_copy.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::coordinator_process {

class RunKeeping {
 public:
  using Call = rpc::BlockingCall<wire::KeeperMessage, wire::KeepOrder>;

  struct Options {
    store::RunPaths run;
    std::optional<HostRank> keeper{};  // the host that is to keep the run; nothing: none
    // `flush` makes the run's journal durable; `take_log` takes the statements that it logged since the last
    // call.
    std::function<absl::Status()> flush;
    std::function<std::string()> take_log;
    std::function<void(const std::string&)> news;    // gets one line for people
    std::chrono::milliseconds patience{5000};        // how long to wait for a keeper that does not answer
    std::chrono::milliseconds first_patience{3000};  // how long to wait for one that has not come yet
    std::chrono::milliseconds copy_patience{10000};  // how long to wait for one that copies the journal
    // The most bytes of changes that wait in memory for a keeper that copies the journal.
    std::size_t most_waiting = std::size_t{1} << 30;
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };

  explicit RunKeeping(Options options);

  // Lets a keeper that has come begin, hands it the statements that the journal logged, and gives it up if it
  // does not get on with its copy. Requires: the journal is flushed.
  void look();
  // Flushes the journal, and waits until the keeper, if it is here, has it too. The first call also waits a
  // while for a keeper to come and to copy the journal. Errors: the journal's.
  absl::Status flush();
  // Tells the keeper that a checkpoint counts from now on.
  void counted(const std::string& dir, const std::vector<std::string>& files);
  // True while it is worth waiting until the keeper has the checkpoint that counted last: the keeper fetches
  // it, may still come, or may soon have the journal. Called again and again until false.
  bool awaits_copy();
  // Tells the keeper, if it still answers, that the run has ended.
  void over();
  std::optional<HostRank> keeper() const { return options_.keeper; }
  // The address at which the keeper would lead the run; empty while it has no copy.
  std::string next_leader() const;

  // Serves a keeper's call. Errors: the call is another host's.
  absl::Status serve(Call& call);

 private:
  // A keeper that has come; a later one takes its place.
  struct Keeper {
    std::string address;
    Call* call;  // valid until it is gone
    std::optional<store::JournalSnapshot> snapshot{};
    bool begun = false;
    bool asked = false;  // whether it is its turn: this host has read its own journal
    bool here = false;
    bool gone = false;
    std::deque<std::string> statements{};
    std::size_t waiting = 0;  // bytes of statements
    std::int64_t handed = 0;  // batches of statements handed to it, the snapshot first
    std::int64_t kept = 0;    // batches that it has on its disk
    std::chrono::steady_clock::time_point last_step{};  // when it last got on
    std::optional<wire::CheckpointToKeep> checkpoint{};
    wire::CheckpointFetched fetched{};  // the checkpoint that it fetched last
    bool over = false;
  };
  // The news that people have.
  enum class Said { kKept, kCopied, kNotKept };

  bool connected() const { return keeper_ != nullptr && !keeper_->gone; }
  bool here() const { return connected() && keeper_->here; }
  std::chrono::steady_clock::duration time_left() const;
  void begin();
  void give_up_if_it_stands_still();
  void end(Keeper& keeper, const std::string& trouble);
  bool step(Keeper& keeper, bool asked);
  void hear(Call& call, Keeper& keeper);
  absl::Status tell(Call& call, Keeper& keeper);
  absl::StatusOr<wire::RunToKeep> run_to_keep() const;
  absl::Status send_journal(Call& call, Keeper& keeper, store::JournalSnapshot snapshot);
  void send_changes(Call& call, Keeper& keeper);
  void await_first(std::unique_lock<std::mutex>& lock);
  bool wait_until_kept(std::unique_lock<std::mutex>& lock);
  void say_who_keeps(bool kept);
  void say_whether_it_fetches();

  const Options options_;
  std::atomic<int> passed_ = 0;  // the number of snapshots passed on
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Keeper> keeper_;
  std::optional<wire::CheckpointToKeep> newest_;  // the newest checkpoint that counts
  // The beginning of the wait for a copy of that checkpoint.
  std::optional<std::chrono::steady_clock::time_point> awaited_since_;
  bool waited_ = false;  // whether this process has waited for the first keeper
  Said said_ = Said::kKept;
  std::string trouble_;      // the trouble of the keeper that came last
  int failed_fetches_ = 0;   // the number of checkpoints since the last one that a keeper has fetched
  std::string not_fetched_;  // the newest of them, and the reason
  bool said_not_fetched_ = false;
};

}  // namespace paceline::coordinator_process
