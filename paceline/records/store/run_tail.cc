#include "paceline/records/store/run_tail.h"

#include <algorithm>
#include <variant>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/whole_run.h"

namespace paceline::store {

namespace {

constexpr double kNearlyAll = 0.999;

bool same(const Attempt& a, const Attempt& b) { return a.number == b.number && a.from == b.from; }

}  // namespace

class RunTail::Watch final : public control::RunListener {
 public:
  explicit Watch(RunTail& tail) : tail_(tail) {}

  void on_fact(const control::Fact& fact) override { next().on_fact(fact); }
  void on_order(Time at, const control::Order& order) override {
    const auto* commit = std::get_if<control::CommitRecord>(&order);
    if (commit != nullptr && commit->checkpoint) tail_.keep_copy(commit->version);
    next().on_order(at, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override { next().on_evaluated(evaluated); }
  void on_side_work(const control::SideWork& work) override { next().on_side_work(work); }

 private:
  Splice& next() {
    ++tail_.since_copy_;
    return *tail_.splice_;
  }

  RunTail& tail_;
};

// A run goes back to one of its latest checkpoints.
void RunTail::keep_copy(Version next) {
  if (!copies_.copy || since_copy_ < copies_.apart || (last_ && next > *last_)) return;
  since_copy_ = 0;
  older_ = std::move(newer_);
  newer_ =
      std::make_unique<Copy>(Copy{copies_.copy(), *plausible_, *splice_, attempts_, attempt_, after_, next});
}

// True if all that the copy has heard counts in the run as it is now.
bool RunTail::serves(const Copy& copy) const {
  if (attempts_.size() <= copy.attempt) return false;
  for (std::size_t i = 0; i <= copy.attempt; ++i) {
    if (!same(attempts_[i], copy.attempts[i])) return false;
    if (i < copy.attempt && last_kept(attempts_, i) != last_kept(copy.attempts, i)) return false;
  }
  const std::optional<Version> last = last_kept(attempts_, copy.attempt);
  return !is_left_out(attempts_[copy.attempt], last) && (!last || *last >= copy.next);
}

absl::StatusOr<bool> RunTail::begin_from_copy(JournalReader& journal) {
  if (newer_ && !serves(*newer_)) newer_ = std::move(older_);
  if (!newer_ || !serves(*newer_)) return false;
  PACELINE_ASSIGN_OR_RETURN(control::RunListener * listener, copies_.go_on_from(journal, *newer_->listener));
  if (listener == nullptr) return false;
  plausible_ = std::make_unique<Plausible>(newer_->plausible, *listener);
  splice_ = std::make_unique<Splice>(newer_->splice, *plausible_);
  attempt_ = newer_->attempt;
  after_ = newer_->after;
  splice_->end_at(last_kept(attempts_, attempt_));
  begun_ = true;
  since_copy_ = 0;
  return true;
}

absl::Status RunTail::begin(JournalReader& journal, const Anew& anew) {
  PACELINE_ASSIGN_OR_RETURN(const bool goes_on, begin_from_copy(journal));
  if (goes_on) return absl::OkStatus();
  newer_.reset();
  older_.reset();
  PACELINE_ASSIGN_OR_RETURN(control::RunListener * listener, anew(journal));
  plausible_ = std::make_unique<Plausible>(*listener);
  splice_ = std::make_unique<Splice>(*plausible_);
  attempt_ = 0;
  begun_ = false;
  after_ = -1;
  since_copy_ = 0;
  return absl::OkStatus();
}

absl::Status RunTail::go_on(JournalReader& journal, std::int64_t most) {
  Watch watch(*this);
  for (; attempt_ < attempts_.size(); ++attempt_) {
    last_ = last_kept(attempts_, attempt_);
    if (is_left_out(attempts_[attempt_], last_)) continue;
    if (!std::exchange(begun_, true)) splice_->begin(last_);
    PACELINE_RETURN_IF_ERROR(journal.replay_some(watch, attempts_[attempt_].number, after_, most, texts_));
    PACELINE_RETURN_IF_ERROR(splice_->status());
    PACELINE_RETURN_IF_ERROR(plausible_->status());
    if (most == 0) {
      PACELINE_ASSIGN_OR_RETURN(const std::int64_t newest, journal.newest_fact());
      const double share =
          static_cast<double>(after_) / static_cast<double>(std::max<std::int64_t>(1, newest));
      share_ = std::clamp(share, 0.0, kNearlyAll);  // other events may follow the newest fact
      return absl::OkStatus();
    }
    if (!last_) return absl::OkStatus();  // the newest attempt, which may grow
    splice_->end();
    begun_ = false;
  }
  return absl::OkStatus();
}

absl::Status RunTail::read(const Anew& anew, std::int64_t most) {
  share_ = 1;
  PACELINE_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::open(path_));
  PACELINE_ASSIGN_OR_RETURN(std::vector<Attempt> attempts, journal.attempts());
  absl::Status status;
  if (!splice_ || !std::equal(attempts.begin(), attempts.end(), attempts_.begin(), attempts_.end(), same)) {
    splice_.reset();
    attempts_ = std::move(attempts);
    status = begin(journal, anew);
  }
  if (status.ok()) status = go_on(journal, most);
  if (!status.ok()) {
    splice_.reset();
    newer_.reset();
    older_.reset();
  }
  return status;
}

}  // namespace paceline::store
