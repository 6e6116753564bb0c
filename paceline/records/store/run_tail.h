// Follows a run's journal while it grows: each read() tells the events since the read before. The file is
// open only during a read, so that its writer can close it as if it had no reader. One thread.
//
// Invariant: the events told since the latest `anew` are equal to those that replay_whole_run() gives for the
// run at some moment, or are the first of these, and such a run is possible. The reasons of the orders refer to text that lives as long
// as this object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
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

  explicit RunTail(std::filesystem::path journal) : path_(std::move(journal)) {}

  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  // Tells at most `most` events, so that the caller can do something else before the next ones. Calls `anew` at first,
  // and when the run went back or was resumed, because then some of the events told no longer count. Errors: those of
  // JournalReader; after an error the next read begins anew.
  absl::Status read(const Anew& anew, std::int64_t most = kAll);
  // Whether the latest read left events for the next one.
  bool is_behind() const { return share_ < 1; }
  // How far the reading is, from 0 to 1, by the numbers of events.
  double share() const { return share_; }

 private:
  absl::Status begin(JournalReader& journal, const std::vector<Attempt>& attempts, const Anew& anew);
  absl::Status go_on(JournalReader& journal, const std::vector<Attempt>& attempts, std::int64_t most);

  const std::filesystem::path path_;
  std::set<std::string, std::less<>> texts_;
  std::unique_ptr<Plausible> plausible_;
  std::unique_ptr<Splice> splice_;  // null: the next read begins anew
  std::vector<std::pair<std::int64_t, Version>> attempts_;
  std::size_t attempt_ = 0;  // the one that is told, an index of attempts_
  bool begun_ = false;       // whether the splice has begun it
  std::int64_t after_ = -1;
  double share_ = 1;
};

}  // namespace paceline::store
