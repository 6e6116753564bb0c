// The events of one table of a journal, one by one, in the order they were recorded. For journal_reader.cc
// only, which merges the tables. A row that cannot be an event is an InvalidArgument, in words that fit after
// "FILE: ".
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/decisions/control/run_listener.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

// Keeps the texts of reasons alive.
using Texts = std::set<std::string, std::less<>>;

class Events {
 public:
  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

  explicit Events(Statement rows) : rows_(std::move(rows)) {}
  virtual ~Events() = default;

  absl::Status advance();
  // The number of the event at hand; kEnd after the last one.
  std::int64_t seq() const { return seq_; }
  virtual absl::Status tell(control::RunListener& listener) = 0;

 protected:
  Statement rows_;

 private:
  std::int64_t seq_ = kEnd;
};

// The events with numbers above `after`, of one attempt or of all (0).
struct Which {
  std::int64_t attempt = 0;
  std::int64_t after = -1;  // seq
};

// The database and the texts must outlive the events.
using EventsOr = absl::StatusOr<std::unique_ptr<Events>>;
EventsOr read_facts(const Database& database, Which which, Texts& texts);
// Only where devices ran out of memory. Requires: one attempt.
EventsOr read_short_memory(const Database& database, Which which, Texts& texts);
EventsOr read_commits(const Database& database, Which which, Texts& texts);
EventsOr read_releases(const Database& database, Which which, Texts& texts);
EventsOr read_other_orders(const Database& database, Which which, Texts& texts);
EventsOr read_evaluations(const Database& database, Which which, Texts& texts);
// Requires: is_of_today().
EventsOr read_side_work(const Database& database, Which which, Texts& texts);
EventsOr read_plans(const Database& database, Which which, Texts& texts);
EventsOr read_batches(const Database& database, Which which, Texts& texts);

}  // namespace paceline::store
