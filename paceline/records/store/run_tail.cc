#include "paceline/records/store/run_tail.h"

#include "paceline/base/status_macros.h"
#include "paceline/records/store/whole_run.h"

namespace paceline::store {

absl::Status RunTail::begin(JournalReader& journal, const std::vector<Attempt>& attempts, const Anew& anew) {
  PACELINE_ASSIGN_OR_RETURN(control::RunListener * listener, anew(journal));
  plausible_ = std::make_unique<Plausible>(*listener);
  auto splice = std::make_unique<Splice>(*plausible_);
  for (std::size_t i = 0; i + 1 < attempts.size(); ++i)
    PACELINE_RETURN_IF_ERROR(replay_attempt(journal, attempts, i, *splice, texts_));
  splice->begin(std::nullopt);
  splice_ = std::move(splice);
  after_ = -1;
  attempts_.clear();
  for (const Attempt& attempt : attempts) attempts_.emplace_back(attempt.number, attempt.from);
  return absl::OkStatus();
}

absl::Status RunTail::read(const Anew& anew) {
  PACELINE_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::open(path_));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, journal.attempts());
  std::vector<std::pair<std::int64_t, Version>> now;
  for (const Attempt& attempt : attempts) now.emplace_back(attempt.number, attempt.from);
  if (!splice_ || now != attempts_) {
    splice_.reset();
    PACELINE_RETURN_IF_ERROR(begin(journal, attempts, anew));
  }
  if (attempts.empty()) return absl::OkStatus();
  absl::Status status = journal.replay_after(*splice_, attempts.back().number, after_, texts_);
  status.Update(splice_->status());
  status.Update(plausible_->status());
  if (!status.ok()) splice_.reset();
  return status;
}

}  // namespace paceline::store
