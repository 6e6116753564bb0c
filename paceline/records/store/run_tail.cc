#include "paceline/records/store/run_tail.h"

#include <algorithm>
#include <optional>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/whole_run.h"

namespace paceline::store {

namespace {

constexpr double kNearlyAll = 0.999;

}  // namespace

absl::Status RunTail::begin(JournalReader& journal, const std::vector<Attempt>& attempts, const Anew& anew) {
  PACELINE_ASSIGN_OR_RETURN(control::RunListener * listener, anew(journal));
  plausible_ = std::make_unique<Plausible>(*listener);
  splice_ = std::make_unique<Splice>(*plausible_);
  attempt_ = 0;
  begun_ = false;
  after_ = -1;
  attempts_.clear();
  for (const Attempt& attempt : attempts) attempts_.emplace_back(attempt.number, attempt.from);
  return absl::OkStatus();
}

absl::Status RunTail::go_on(JournalReader& journal, const std::vector<Attempt>& attempts, std::int64_t most) {
  for (; attempt_ < attempts.size(); ++attempt_) {
    const std::optional<Version> last = last_kept(attempts, attempt_);
    if (is_left_out(attempts[attempt_], last)) continue;
    if (!std::exchange(begun_, true)) splice_->begin(last);
    PACELINE_RETURN_IF_ERROR(journal.replay_some(*splice_, attempts[attempt_].number, after_, most, texts_));
    PACELINE_RETURN_IF_ERROR(splice_->status());
    PACELINE_RETURN_IF_ERROR(plausible_->status());
    if (most == 0) {
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t newest, journal.newest_fact());
      // Other events may follow the newest fact.
      share_ = std::min(kNearlyAll,
                        static_cast<double>(after_) / static_cast<double>(std::max<std::int64_t>(1, newest)));
      return absl::OkStatus();
    }
    if (!last) return absl::OkStatus();  // the newest attempt, which may grow
    splice_->end();
    begun_ = false;
  }
  return absl::OkStatus();
}

absl::Status RunTail::read(const Anew& anew, std::int64_t most) {
  share_ = 1;
  PACELINE_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::open(path_));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, journal.attempts());
  std::vector<std::pair<std::int64_t, Version>> now;
  for (const Attempt& attempt : attempts) now.emplace_back(attempt.number, attempt.from);
  if (!splice_ || now != attempts_) {
    splice_.reset();
    PACELINE_RETURN_IF_ERROR(begin(journal, attempts, anew));
  }
  absl::Status status = go_on(journal, attempts, most);
  if (!status.ok()) splice_.reset();
  return status;
}

}  // namespace paceline::store
