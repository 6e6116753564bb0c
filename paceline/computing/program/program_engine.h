// A user's program as an engine: a process of the user that computes on memory which it maps
// (docs/program.md).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/computing/engine/engine.h"
#include "paceline/computing/program/memories.h"
#include "paceline/computing/program/messages.h"
#include "paceline/computing/program/process.h"
#include "paceline/computing/program/step_page.h"
#include "paceline/computing/program/units.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::program {

struct StartOptions {
  std::string name;  // name of the program, for people
  Process::Options process;
  StartMessage start;
  double step_limit_s = 0;  // 0: none
  bool bfloat16 =
      false;  // the program's leading parameters of bfloat16 are narrow tensors, if it can have such
  // asked now and then until the program has said what it trains; empty: it is waited for as long as that takes
  engine::KeepGoing keep_going{};
  double after_limit_s = 600;  // for what it does after the job: it may save what it likes. 0: none
};

// The options that the job gives a program in this role.
StartOptions start_options(const config::JobConfig& job, Role role, const std::string& name, int threads);

class ProgramEngine final : public engine::Engine {
 public:
  // Starts the program and waits until it has said what it trains. Errors: NotFound when it cannot be
  // started; FailedPrecondition, in one line, when it fails or says what cannot be.
  static absl::StatusOr<std::unique_ptr<ProgramEngine>> start(const StartOptions& options);
  // If end() was not called, the program hears that the job failed, unless it was only asked what it trains.
  ~ProgramEngine() override;

  const Model& model() const { return model_; }
  const ps::Layout& layout() const override { return model_.layout; }
  std::span<const engine::FrozenTensor> frozen() const override { return model_.frozen; }
  std::int32_t samples() const override { return model_.samples; }
  bool in_order() const override { return model_.in_order; }
  std::string digest() const override { return model_.digest; }
  DataOrder data_order() const override { return model_.data_order; }
  std::int64_t prefetch() const override { return model_.prefetch; }
  Card card() const override { return {model_.card, model_.cards}; }
  std::optional<CardMemory> card_memory() const override { return model_.card_memory; }
  std::int64_t units() const override { return std::max<std::int64_t>(1, std::ssize(model_.units)); }
  std::optional<Cuts> cuts() const override { return cuts_of(model_); }
  absl::Status initial_weights(std::span<float> out) override;
  double first_steps() const override { return model_.first_steps; }
  absl::Status first_state(std::span<float> out) override;
  void share(const engine::Memory& memory) override;
  void forget(const std::byte* base) override;
  void expect(std::span<const engine::Batch> batches) override;
  absl::Status prepare(const engine::Batch& batch) override;
  absl::StatusOr<engine::StepResult> step(const engine::Weights& weights, std::span<float* const> gradients,
                                          std::int64_t micro_batch,
                                          const engine::KeepGoing& keep_going) override;
  absl::StatusOr<engine::Evaluation> evaluate(std::span<const float* const> weights, std::int64_t chunk,
                                              const engine::KeepGoing& keep_going) override;
  absl::Status take_last(std::span<const float* const> weights, const engine::KeepGoing& keep_going) override;
  absl::Status check_alive() override;
  std::span<const engine::ShardLength> lengths() const override { return lengths_; }
  absl::Status end(bool first) override;
  std::optional<engine::TooFew> too_few() const override { return too_few_; }
  absl::StatusOr<std::unique_ptr<engine::Stage>> make_stage(std::int64_t begin, std::int64_t end) override;

 private:
  friend class ProgramStage;
  ProgramEngine(const StartOptions& options, Process process);
  absl::Status introduce();
  absl::Status send(const std::string& line);
  // The answer to `line` within `limit_s` (0: there is no limit). Cancelled when `keep_going` says no: the
  // answer is then awaited before the next line is sent. `next`, if it is not empty, is sent along: the line that
  // will be asked next, so the program need not wait for it. If another one is asked, its answer is thrown away.
  absl::StatusOr<Answer> ask(const std::string& line, const engine::KeepGoing& keep_going, double limit_s = 0,
                             const std::string& next = "");
  // The next answer that is owed.
  absl::StatusOr<Answer> answer(const engine::KeepGoing& keep_going);
  absl::StatusOr<Answer> receive(const std::function<absl::Status()>& patience);
  void learn(Answer& answer);
  // Says, when it is asked now and then, whether it is worth waiting for the program.
  std::function<absl::Status()> patience(const engine::KeepGoing& keep_going) const;
  // The lines without an answer that were not sent yet.
  std::string take_later();
  // Waits for all answers that are owed, and throws them away.
  absl::Status drain(const engine::KeepGoing& keep_going);
  // The runs of these pointers, after the program was told of what memory it has to map for them.
  template <class Float>
  absl::StatusOr<std::vector<PlacedRun>> runs_of(std::span<Float* const> pointers);
  absl::Status say_at_the_end(const std::string& line);
  // Why the program's own work after the job failed, if it says so by then.
  std::optional<Failed> failure_after_the_job(std::chrono::steady_clock::time_point until);

  // Steps with words (program_steps.cc). A program with a GPU is told of the next step before this one is over. So its
  // thread gives the GPU all work in good time, and nobody but the GPU waits.
  struct Early {
    engine::Batch batch;
    std::vector<PlacedRun> gradients;
    std::int64_t micro_batch = 0;
    std::uint32_t number = 0;
    std::vector<std::int64_t> rows;
  };
  absl::StatusOr<engine::StepResult> step_whole(const std::string& line, const engine::KeepGoing& keep_going);
  absl::StatusOr<engine::StepResult> step_with_words(const std::vector<PlacedRun>& from,
                                                     const std::vector<PlacedRun>& to,
                                                     std::int64_t micro_batch,
                                                     const engine::KeepGoing& keep_going);
  absl::StatusOr<std::uint32_t> begin_step(const std::vector<PlacedRun>& from,
                                           const std::vector<PlacedRun>& to, std::int64_t micro_batch,
                                           const engine::KeepGoing& keep_going);
  absl::Status begin_next(const std::vector<PlacedRun>& to, std::int64_t micro_batch);
  // Lets the program finish a step that was begun early, in vain.
  void withdraw();
  void log_steps() const;
  absl::Status make_page();
  absl::Status wait_until_done(std::uint32_t number, const engine::KeepGoing& keep_going);

  // The error for an answer that is no result of a step or of a stage: ResourceExhausted if the program has no memory for
  // that and the job can cut the model in another way; else an error that ends this engine.
  absl::Status no_result(const Answer& answer);
  // The error that ends this engine, in a line that names the program.
  absl::Status failed(const absl::Status& why);

  const StartOptions options_;
  const std::string name_;  // name of the program, for people
  Process process_;
  Model model_;
  std::mutex sharing_;  // guards the next two
  Memories memories_;
  std::string
      later_;  // lines without an answer: go before the next question, or once an early step may begin
  std::optional<engine::Batch> batch_;
  std::int64_t stages_made_ = 0;
  std::vector<engine::Batch> expected_;
  std::vector<engine::Batch> told_;  // the last of these lists that the program has
  int owed_ = 0;                     // answers that nobody has taken yet
  std::deque<Answer> here_;          // the owed answers that have arrived
  double limit_s_ = 0;               // for each of them; 0: none
  std::string sent_along_;           // the line of the last of them if nobody has asked for it yet
  std::optional<StepPage> page_;
  std::int64_t page_number_ = 0;  // the number of the page's memory
  std::uint32_t steps_ = 0;       // steps with words so far
  std::optional<Early> early_;
  std::vector<std::int64_t> boards_;  // the boards at the last step
  int steady_ = 0;                    // steps since a board came
  std::int64_t stepped_ = 0, stepped_early_ = 0, withdrawn_ = 0;
  std::chrono::nanoseconds step_time_{0};  // time of the last step with words
  std::vector<engine::ShardLength> lengths_;
  std::optional<engine::TooFew> too_few_;
  bool over_ = false;  // the program has ended, or said what cannot be
};

}  // namespace paceline::program
