#include "paceline/store/whole_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"

namespace paceline::store {

namespace {

// Stands between the attempts, told one after another, and the listener: cuts each off where the next begins,
// and gives a replica one number for the whole run.
class Splice final : public control::RunListener {
 public:
  explicit Splice(control::RunListener& next) : next_(next) {}

  // What follows is an attempt of which the versions up to `last` count; without `last`, all do.
  void begin(std::optional<Version> last) {
    last_ = last;
    cut_ = false;
    numbers_.clear();
    here_.clear();
  }

  // Its replicas leave. Requires: begun with a last version.
  void end() {
    returning_.clear();
    for (const ReplicaId replica : here_) {
      next_.on_fact({latest_, control::ReplicaLeft{
                                  replica, fmt::format("the run was resumed from version {}", *last_)}});
      returning_[names_.at(replica)] = replica;
    }
  }

  void on_fact(const control::Fact& fact) override {
    if (cut_) return;
    control::Fact told = fact;
    std::visit(Overloaded{
                   [&](control::ReplicaJoined& joined) { join(joined); },
                   [&](control::ReplicaLeft& left) {
                     renumber(left.replica);
                     here_.erase(left.replica);
                   },
                   [&](control::ReplicaReady& ready) { renumber(ready.replica); },
                   [](auto&) {},
               },
               told.what);
    if (cut_) return;
    latest_ = fact.at;
    next_.on_fact(told);
  }

  void on_order(Time at, const control::Order& order) override {
    if (cut_) return;
    control::Order told = order;
    std::visit(Overloaded{
                   [&](control::CommitRecord& commit) {
                     for (control::CommitMember& member : commit.members) renumber(member.replica);
                   },
                   [&](control::Release& release) { renumber(release.replica); },
                   [&](control::Discard& discard) { renumber(discard.replica); },
                   [&](control::Park& park) { renumber(park.replica); },
                   [](auto&) {},
               },
               told);
    if (cut_) return;
    next_.on_order(at, told);
    const auto* commit = std::get_if<control::CommitRecord>(&order);
    cut_ = commit != nullptr && last_ && commit->version >= *last_;
  }

  // Evaluations come late, maybe after the cut.
  void on_evaluated(const control::Evaluated& evaluated) override {
    if (!last_ || evaluated.version <= *last_) next_.on_evaluated(evaluated);
  }


  // What in the record cannot have been.
  const absl::Status& status() const { return status_; }

 private:
  // The same replica as before the attempt, if its place had one; else its own number, if nobody had that.
  void join(control::ReplicaJoined& joined) {
    ReplicaId number = joined.replica;
    if (const auto again = returning_.extract(joined.name); !again.empty()) {
      number = again.mapped();
    } else if (names_.contains(number)) {
      for (number = ReplicaId(0); names_.contains(number);) number = number.next();
    }
    numbers_[joined.replica] = number;
    names_[number] = joined.name;
    here_.insert(number);
    joined.replica = number;
  }

  void renumber(ReplicaId& replica) {
    const auto found = numbers_.find(replica);
    if (found != numbers_.end()) {
      replica = found->second;
      return;
    }
    status_.Update(absl::DataLossError(
        fmt::format("the journal is damaged: replica {} is in it and never joined", replica)));
    cut_ = true;
  }

  control::RunListener& next_;
  std::optional<Version> last_;
  bool cut_ = false;  // nothing more is told of this attempt
  Time latest_{};
  std::map<ReplicaId, ReplicaId> numbers_;      // the attempt's → the whole run's
  std::set<ReplicaId> here_;                    // the whole run's numbers, here and below
  std::map<ReplicaId, std::string> names_;      // ever
  std::map<std::string, ReplicaId> returning_;  // who was here when the attempt before ended
  absl::Status status_;
};

// The last version of an attempt that a later one did not do again.
std::optional<Version> last_kept(const std::vector<Attempt>& attempts, std::size_t i) {
  std::optional<Version> last;
  for (std::size_t later = i + 1; later < attempts.size(); ++later)
    last = std::min(last.value_or(attempts[later].from), attempts[later].from);
  return last;
}

}  // namespace

absl::Status replay_whole_run(JournalReader& journal, control::RunListener& listener) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, journal.attempts());
  Splice splice(listener);
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const std::optional<Version> last = last_kept(attempts, i);
    if (last && *last <= attempts[i].from) continue;  // all of it was done again
    splice.begin(last);
    PACELINE_RETURN_IF_ERROR(journal.replay(splice, attempts[i].number));
    PACELINE_RETURN_IF_ERROR(splice.status());
    if (last) splice.end();
  }
  return absl::OkStatus();
}

}  // namespace paceline::store
