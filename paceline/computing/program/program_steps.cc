// Steps of a program whose GPU waits for words and writes them (step_page.h), and what it is told of the next ones.
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/computing/program/program_engine.h"

namespace paceline::program {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Short waits cost processor time, and long ones delay a step.
constexpr std::chrono::nanoseconds kLongestWait = 1ms;
constexpr std::chrono::nanoseconds kShortestWait = 10us;
constexpr unsigned long kTimerSlackNs = 1000;
constexpr std::chrono::nanoseconds kAskedEvery = 20ms;
// A step whose weights turn out to be in memory that the program does not know was begun in vain. The servers use new
// memory in the first steps.
constexpr int kSteadySteps = 4;

// The runs of all tensors in a buffer of a card's board, as the package has them (runs_of_board in memories.py): the
// narrow tensors, which are first in the layout, lie behind the floats.
std::vector<PlacedRun> runs_of_board(const ps::Layout& layout, std::int64_t memory) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  const auto& tensors = layout.tensors();
  const auto wide = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const ps::TensorSpec& one) { return one.offset >= layout.narrow(); });
  std::vector<PlacedRun> runs;
  if (wide != tensors.begin()) runs.push_back({0, memory, layout.size() * kFloat});
  if (wide != tensors.end()) runs.push_back({wide - tensors.begin(), memory, wide->offset * kFloat});
  return runs;
}

}  // namespace

absl::StatusOr<engine::StepResult> ProgramEngine::step_whole(const std::string& line,
                                                             const engine::KeepGoing& keep_going) {
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(line, keep_going, options_.step_limit_s));
  const auto* stepped = std::get_if<Stepped>(&answer);
  if (stepped == nullptr) return no_result(answer);
  if (stepped->later) return failed(absl::DataLossError("answered out of turn"));
  return stepped->result;
}

absl::StatusOr<engine::StepResult> ProgramEngine::step_with_words(const std::vector<PlacedRun>& from,
                                                                  const std::vector<PlacedRun>& to,
                                                                  std::int64_t micro_batch,
                                                                  const engine::KeepGoing& keep_going) {
  PACELINE_RETURN_IF_ERROR(make_page());
  const auto start = steady_clock::now();
  stepped_ += 1;
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t number, begin_step(from, to, micro_batch, keep_going));
  PACELINE_RETURN_IF_ERROR(begin_next(to, micro_batch));
  PACELINE_ASSIGN_OR_RETURN(Answer answer, this->answer(keep_going));
  auto* stepped = std::get_if<Stepped>(&answer);
  if (stepped == nullptr) return no_result(answer);
  if (!stepped->later) return std::move(stepped->result);
  PACELINE_RETURN_IF_ERROR(wait_until_done(number, keep_going));
  step_time_ = steady_clock::now() - start;
  // The program finds the tensor whose gradient is not finite while it takes the same step again.
  if (!std::isfinite(page_->value(0)))
    return step_whole(step_line(*batch_, from, to, micro_batch), keep_going);
  engine::StepResult result = std::move(stepped->result);
  result.finite = true;
  if (stepped->later->loss) result.loss = page_->value(*stepped->later->loss);
  for (const auto& [name, slot] : stepped->later->metrics) {
    if (std::isfinite(page_->value(slot))) result.metrics[name] = page_->value(slot);
  }
  return result;
}

absl::Status ProgramEngine::make_page() {
  std::string lines;
  {
    const std::lock_guard lock(sharing_);
    if (!page_) {
      PACELINE_ASSIGN_OR_RETURN(page_, StepPage::create());
      memories_.add(page_->memory());
    }
    page_number_ = *memories_.number_of(page_->memory().base, lines);
  }
  return lines.empty() ? absl::OkStatus() : send(lines);
}

absl::StatusOr<std::uint32_t> ProgramEngine::begin_step(const std::vector<PlacedRun>& from,
                                                        const std::vector<PlacedRun>& to,
                                                        std::int64_t micro_batch,
                                                        const engine::KeepGoing& keep_going) {
  const bool whole_board = from == runs_of_board(model_.layout, from.front().memory);
  if (early_ && whole_board && early_->batch == *batch_ && early_->gradients == to &&
      early_->micro_batch == micro_batch) {
    const auto row = std::find(early_->rows.begin(), early_->rows.end(), from.front().memory);
    if (row != early_->rows.end()) {
      const std::uint32_t number = early_->number;
      page_->let_begin(number, row - early_->rows.begin());
      early_.reset();
      stepped_early_ += 1;
      PACELINE_RETURN_IF_ERROR(send(take_later()));
      return number;
    }
  }
  PACELINE_RETURN_IF_ERROR(drain(keep_going));
  const Words words{.page = page_number_, .number = ++steps_};
  PACELINE_RETURN_IF_ERROR(send(take_later() + step_line(*batch_, from, to, micro_batch, {}, words)));
  owed_ += 1;
  limit_s_ = options_.step_limit_s;
  return words.number;
}

absl::Status ProgramEngine::begin_next(const std::vector<PlacedRun>& to, std::int64_t micro_batch) {
  auto next = std::find(expected_.begin(), expected_.end(), *batch_);
  if (next == expected_.end() || ++next == expected_.end()) return absl::OkStatus();
  std::vector<std::int64_t> boards;
  {
    const std::lock_guard lock(sharing_);
    boards = memories_.boards();
  }
  steady_ = boards == boards_ ? steady_ + 1 : 0;
  boards_ = boards;
  if (steady_ < kSteadySteps) return absl::OkStatus();
  const Words words{.page = page_number_, .number = ++steps_, .rows = std::move(boards)};
  early_ = {*next, to, micro_batch, words.number, words.rows};
  owed_ += 1;
  return send(step_line(*next, {}, to, micro_batch, {}, words));
}

void ProgramEngine::expect(std::span<const engine::Batch> batches) {
  // This is only a hint: a program reads what it was not told of.
  batches = batches.first(expected_in_a_line(batches));
  if (std::equal(batches.begin(), batches.end(), expected_.begin(), expected_.end())) return;
  expected_.assign(batches.begin(), batches.end());
  // A program that has ended says so when it is asked next.
  if (over_ || (owed_ > 0 && !early_)) return;
  std::int64_t dropped = -1;
  if (model_.words) {
    // The list of batches is long, and most of them were in the last one.
    const auto first = batches.empty() ? told_.end() : std::find(told_.begin(), told_.end(), batches.front());
    const std::span<const engine::Batch> rest(first, told_.end());
    if (rest.size() <= batches.size() && std::equal(rest.begin(), rest.end(), batches.begin())) {
      batches = batches.subspan(rest.size());
      dropped = first - told_.begin();
    }
  }
  told_ = expected_;
  {
    const std::lock_guard lock(sharing_);
    later_ += expect_line(batches, dropped);
  }
  // The program may wait for its GPU, and the GPU for let_begin(): a line that fills the socket would wait for ever.
  if (!early_) send(take_later()).IgnoreError();
}

// A step that nobody waits for writes to the gradient's memory, too. It harms no commit: a caller has pinned a version
// that is newer than the gradient there, or the job is over.
void ProgramEngine::withdraw() {
  if (!early_) return;
  page_->let_begin(early_->number, 0);
  early_.reset();
  withdrawn_ += 1;
}

void ProgramEngine::log_steps() const {
  if (stepped_ > 0)
    spdlog::info("{}: {} of {} steps were begun early, and {} in vain", name_, stepped_early_, stepped_,
                 withdrawn_);
}

absl::Status ProgramEngine::wait_until_done(std::uint32_t number, const engine::KeepGoing& keep_going) {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);  // the usual 50 us are longer than the shortest wait
  const auto goes_on = patience(keep_going);
  const auto expected = steady_clock::now() + step_time_ * 7 / 8;
  auto asked = steady_clock::now();
  while (!page_->done(number)) {
    const auto now = steady_clock::now();
    if (process_.wait_readable(
            std::clamp(std::chrono::nanoseconds(expected - now), kShortestWait, kLongestWait))) {
      PACELINE_ASSIGN_OR_RETURN(here_.emplace_back(), receive(goes_on));
    } else if (now - asked > kAskedEvery) {
      PACELINE_RETURN_IF_ERROR(goes_on());
      asked = now;
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline::program
