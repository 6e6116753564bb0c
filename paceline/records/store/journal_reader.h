// Reads a run's journal back: for reports, replays and resumed runs. One thread; the run may still be going
// on, each call then sees it as of its start. journal.h describes the tables.
//
// Invariant: events come in the order they were recorded, facts before the orders they gave. A journal whose
// bytes make no sense is an error, never a crash and never an impossible event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/decisions/control/planned_run.h"
#include "paceline/decisions/control/process_report.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/coordinator/shard_lengths.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

struct Attempt {
  std::int64_t number = 0;  // from 1
  Version from;             // the version it was resumed from; 0: from the start
};

// The versions that an attempt committed, all from `first` to `newest`.
struct Committed {
  Version first;
  Version newest;
};

// A plan, and the attempt that adopted it.
struct LastPlan {
  std::int64_t attempt = 0;
  control::PlanAdopted adopted;
};

class JournalReader {
 public:
  static constexpr std::int64_t kAllAttempts = 0;

  // Errors: NotFound; FailedPrecondition when the file is not a journal; DataLoss when it is damaged.
  static absl::StatusOr<JournalReader> open(const std::filesystem::path& path);

  absl::StatusOr<std::vector<Attempt>> attempts() const;
  // True if the attempt's facts have the data that a planner needs.
  absl::StatusOr<bool> tells_of_planning(std::int64_t attempt) const;
  // True if a device ran out of memory in the attempt.
  absl::StatusOr<bool> tells_of_short_memory(std::int64_t attempt) const;
  // The facts about the whole run, by key.
  absl::StatusOr<std::map<std::string, std::string>> run() const;

  // Tells `listener` everything that was recorded, or what one attempt recorded. The reasons of the orders
  // refer to text that lives as long as this reader.
  absl::Status replay(control::RunListener& listener, std::int64_t attempt = kAllAttempts);
  // The same for everything that was recorded after the event `after`, which becomes the number of the last
  // one told. The reasons refer to text that lives as long as `texts`.
  absl::Status replay_after(control::RunListener& listener, std::int64_t attempt, std::int64_t& after,
                            std::set<std::string, std::less<>>& texts);
  // The same as replay() for facts and the Controller's orders, without what others did beside them.
  absl::Status decisions(control::RunListener& listener, std::int64_t attempt);
  // The texts of the reasons that replay() told.
  std::set<std::string, std::less<>>& texts() { return texts_; }
  // Does what replay_after() does for at most `left` events. Each one told takes one from `left`; if it is above 0
  // afterwards, there are no more events.
  absl::Status replay_some(control::RunListener& listener, std::int64_t attempt, std::int64_t& after,
                           std::int64_t& left, std::set<std::string, std::less<>>& texts);
  // The number of the newest fact, which tells about how many events there are; 0 before the first.
  absl::StatusOr<std::int64_t> newest_fact() const;
  // The latest report of each process, by name; none in a journal of the previous format.
  absl::StatusOr<std::vector<control::ProcessReport>> processes() const;
  // The lengths of a stream's shards, as far as they were learnt since the run was begun from the start; none in a
  // journal of an earlier version.
  absl::StatusOr<std::vector<coordinator::ShardRecords>> shard_lengths() const;
  // The versions that the attempt committed; nothing if it committed none. Looks at two commits.
  absl::StatusOr<std::optional<Committed>> committed(std::int64_t attempt) const;
  // The plan that was adopted last, in any attempt; nothing if the run has none.
  absl::StatusOr<std::optional<LastPlan>> last_plan();
  // The number of batches by which the run was ahead of its budget at last; nothing if it never had one.
  absl::StatusOr<std::optional<double>> last_queue() const;
  // How the newest attempt finished, which its last order says; nothing if it has not.
  absl::StatusOr<std::optional<control::Finish>> finish() const;

  // Each tells one kind of event, in order.
  absl::Status facts(const std::function<void(const control::Fact&)>& see,
                     std::int64_t attempt = kAllAttempts);
  absl::Status commits(const std::function<void(Time, const control::CommitRecord&)>& see,
                       std::int64_t attempt = kAllAttempts);
  absl::Status evaluations(const std::function<void(const control::Evaluated&)>& see,
                           std::int64_t attempt = kAllAttempts);
  absl::Status plans(const std::function<void(const control::PlanAdopted&)>& see,
                     std::int64_t attempt = kAllAttempts);
  // Tells `listener` where devices ran out of memory in an attempt, and its plans, in order.
  absl::Status short_memory(control::RunListener& listener, std::int64_t attempt);
  absl::Status batches(const std::function<void(const control::BatchDone&)>& see,
                       std::int64_t attempt = kAllAttempts);

 private:
  enum Table : unsigned {
    kFacts = 1,
    kCommits = 2,
    kReleases = 4,
    kOtherOrders = 8,
    kEvaluations = 16,
    kPlans = 32,
    kBatches = 64,
    kSideWork = 128,
    kAll = 255,
    kShortMemory = 256  // a part of kFacts
  };

  JournalReader(std::filesystem::path path, Database database)
      : path_(std::move(path)), database_(std::move(database)) {}
  using Texts = std::set<std::string, std::less<>>;

  // A query for the first ("ASC") or the last ("DESC") row of an attempt.
  absl::StatusOr<Statement> row_of(std::string_view table, std::string_view columns, std::int64_t attempt,
                                   std::string_view direction) const;
  absl::StatusOr<std::vector<control::ProcessReport>> read_processes() const;
  absl::Status read(unsigned tables, std::int64_t attempt, control::RunListener& listener);
  absl::Status read_after(unsigned tables, std::int64_t attempt, std::int64_t& after, Texts& texts,
                          control::RunListener& listener);
  absl::Status read_some(unsigned tables, std::int64_t attempt, std::int64_t& after, std::int64_t& left,
                         Texts& texts, control::RunListener& listener);
  absl::Status merge(unsigned tables, std::int64_t attempt, std::int64_t& after, std::int64_t& left,
                     Texts& texts, control::RunListener& listener);

  std::filesystem::path path_;
  Database database_;
  Texts texts_;  // a set never moves its elements
};

}  // namespace paceline::store
