// Follows a run's journal while it grows: each read() tells the events since the read before. The file is
// open only during a read, so that its writer can close it as if it had no reader. One thread.
//
// A run that goes back to a checkpoint need not be read from its start again, if its listener can be copied: copies are
// kept as of the latest checkpoints.
//
// Invariant: the events told since the latest `anew` are equal to those that replay_whole_run() gives for the
// run at some moment, or are the first of these, and such a run is possible. The reasons of the orders refer to text that
// lives as long as this object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/plausible.h"
#include "paceline/records/store/splice.h"

namespace paceline::store {

class RunTail {
 public:
  // Returns a listener that has heard nothing yet. The earlier listener is not used any more.
  using Anew = std::function<absl::StatusOr<control::RunListener*>(JournalReader& journal)>;

  struct Copies {
    // A copy of the present listener, which is never told anything.
    std::function<std::shared_ptr<const control::RunListener>()> copy{};
    // Returns a listener that has heard what the copy has heard, in place of the present one; null: there can be none.
    std::function<absl::StatusOr<control::RunListener*>(JournalReader& journal,
                                                        const control::RunListener& copy)>
        go_on_from{};
    std::int64_t apart = 100'000;  // at least so many events are between two copies
  };

  explicit RunTail(std::filesystem::path journal) : path_(std::move(journal)) {}
  RunTail(std::filesystem::path journal, Copies copies)
      : path_(std::move(journal)), copies_(std::move(copies)) {}

  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  // Tells at most `most` events, so that the caller can do something else before the next ones. Calls `anew` at first,
  // and when the run went back or was resumed, because then some of the events told no longer count, unless a copy has
  // heard none of these. Errors: those of JournalReader; after an error the next read begins anew.
  absl::Status read(const Anew& anew, std::int64_t most = kAll);
  // Whether the latest read left events for the next one.
  bool is_behind() const { return share_ < 1; }
  // How far the reading is, from 0 to 1, by the numbers of events.
  double share() const { return share_; }

 private:
  // The listener and all that stands before it, as of a moment.
  struct Copy {
    std::shared_ptr<const control::RunListener> listener;
    Plausible plausible;
    Splice splice;
    std::vector<Attempt> attempts;
    std::size_t attempt = 0;
    std::int64_t after = -1;
    Version next;  // the next event is the commit of this version
  };
  // Sees each event before the splice.
  class Watch;

  absl::Status begin(JournalReader& journal, const Anew& anew);
  absl::StatusOr<bool> begin_from_copy(JournalReader& journal);
  bool serves(const Copy& copy) const;
  absl::Status go_on(JournalReader& journal, std::int64_t most);
  void keep_copy(Version next);

  const std::filesystem::path path_;
  const Copies copies_;
  std::set<std::string, std::less<>> texts_;
  std::unique_ptr<Plausible> plausible_;
  std::unique_ptr<Splice> splice_;  // null: the next read begins anew
  std::vector<Attempt> attempts_;
  std::size_t attempt_ = 0;      // the one that is told, an index of attempts_
  bool begun_ = false;           // whether the splice has begun it
  std::optional<Version> last_;  // the last version of it that counts
  std::int64_t after_ = -1;
  double share_ = 1;
  std::unique_ptr<Copy> newer_, older_;
  std::int64_t since_copy_ = 0;  // events
};

}  // namespace paceline::store
