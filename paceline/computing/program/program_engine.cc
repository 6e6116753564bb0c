#include "paceline/computing/program/program_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/program/program_stage.h"

namespace paceline::program {

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// A process that was stopped for so long does not go on by itself.
constexpr std::chrono::seconds kStandsStill = 2s;
// This process looks far more often while it waits. After a longer pause it stood still, and so may have the program.
constexpr std::chrono::seconds kOwnPause = 1s;
constexpr std::chrono::seconds kLittlePatience = 2s;
// After a job that has not ended well.
constexpr std::chrono::seconds kPatience = 30s;
// A million seconds, the longest that a job file may say.
constexpr double kForEverS = 1e6;

// Whether one server has all of these. The words of a step choose among versions that lie together.
bool in_one_memory(const std::vector<PlacedRun>& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const PlacedRun& run) { return run.memory == runs.front().memory; });
}

constexpr char kNoFailure[] = "exit status 0";

bool always() { return true; }

// The device's number among those of its host, from 0. A name that is not in the job has 0.
std::int64_t number_on_host(const config::JobConfig& job, const std::string& name) {
  const auto own = std::find_if(job.devices.begin(), job.devices.end(),
                                [&](const config::DeviceConfig& one) { return one.name == name; });
  if (own == job.devices.end()) return 0;
  return std::count_if(job.devices.begin(), own,
                       [&](const config::DeviceConfig& one) { return one.host == own->host; });
}

// A file without .py that nobody may execute is a script, too.
bool is_no_executable(const config::ProgramConfig& program) {
  if (program.run.ends_with(".py")) return false;
  const std::string path = (std::filesystem::path(program.directory) / program.run).string();
  return ::access(path.c_str(), F_OK) == 0 && ::access(path.c_str(), X_OK) != 0 &&
         !std::filesystem::is_directory(path);
}

// The mean batch of a device.
double mean_batch(const config::JobConfig& job) {
  double all = 0;
  for (const config::DeviceConfig& device : job.devices) all += static_cast<double>(device.batch);
  return all / static_cast<double>(job.devices.size());
}

// The samples of one batch of each replica: a device that is a stage has no batch of its own.
std::int64_t round_samples(const planner::Plan& plan) {
  std::int64_t all = 0;
  for (const planner::PlannedReplica& replica : plan.replicas) all += replica.samples;
  return all;
}

}  // namespace

StartOptions start_options(const config::JobConfig& job, Role role, const std::string& name, int threads) {
  PACELINE_CHECK(job.program.has_value(), "a job without a program");
  StartOptions options;
  options.name = std::filesystem::path(config::named(*job.program)).filename();
  options.process.command = config::command_of(*job.program);
  if (job.program->module.empty() && is_no_executable(*job.program))
    options.process.command.insert(options.process.command.begin(), job.program->python);
  options.process.directory = job.program->directory;
  // Libraries read these variables: one process a device, and its operations on so many threads.
  options.process.environment = {fmt::format("OMP_NUM_THREADS={}", threads), "PYTHONUNBUFFERED=1",
                                 fmt::format("PACELINE_SEED={}", job.seed)};
  // Sets of texts are in the same order in all processes then, and so are classes that a program makes of
  // them.
  if (std::getenv("PYTHONHASHSEED") == nullptr) options.process.environment.push_back("PYTHONHASHSEED=0");
  if (role == Role::kEvaluator && !job.evaluate_device.empty())
    options.process.environment.push_back(fmt::format("PACELINE_DEVICE={}", job.evaluate_device));
  options.start = {.role = role,
                   .name = name,
                   .on_host = number_on_host(job, name),
                   .devices = static_cast<std::int64_t>(job.devices.size()),
                   .seed = job.seed,
                   .threads = threads,
                   .weights = job.program->weights,
                   .stages = job.parallel.of_stages(),
                   .recuts = job.parallel.mode == config::Parallel::kJoint && role == Role::kWorker,
                   .initial_weights = role == Role::kProbe ? "" : job.initial_weights,
                   .keep_frozen = job.keep_frozen,
                   .settings = {{"batch", mean_batch(job)}, {"epochs", job.epochs}}};
  const auto own = std::find_if(job.devices.begin(), job.devices.end(),
                                [&](const config::DeviceConfig& one) { return one.name == name; });
  const bool is_planned = options.start.recuts && own != job.devices.end() && !own->memory_mb;
  // Parts of the weights on several cards are cut by what these have free.
  const bool is_divided = job.memory == config::ShardMemory::kGpu && job.servers > 1 && job.hosts == 1;
  options.start.card_memory = is_planned || (is_divided && role == Role::kWorker);
  if (job.parallel.mode == config::Parallel::kStatic)
    options.start.settings.emplace_back("round", round_samples(job.parallel.plan));
  options.step_limit_s = job.program->step_limit_s;
  options.after_limit_s = job.program->after_limit_s;
  return options;
}

absl::StatusOr<std::unique_ptr<ProgramEngine>> ProgramEngine::start(const StartOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(Process process, Process::start(options.process));
  std::unique_ptr<ProgramEngine> engine(new ProgramEngine(options, std::move(process)));
  PACELINE_RETURN_IF_ERROR(engine->introduce());
  return engine;
}

ProgramEngine::ProgramEngine(const StartOptions& options, Process process)
    : options_(options), name_(options.name), process_(std::move(process)) {
  process_.set_patience(options.start.role == Role::kProbe ? kLittlePatience : kPatience);
}

// A program that goes on after its loop would take what it has for the job's result, and save it, say.
ProgramEngine::~ProgramEngine() {
  const bool asked_only = options_.start.role == Role::kProbe;
  const std::string end =
      asked_only ? end_line("nothing more is asked", false)
                 : end_line("the run was stopped, it failed, or it goes on without this program", true);
  withdraw();
  const bool said = !over_ && say_at_the_end(end).ok();
  const bool evaluates = owed_ > 0 && options_.start.role == Role::kEvaluator;  // which may take long
  if (!said || evaluates) process_.set_patience(kLittlePatience);
}

absl::Status ProgramEngine::say_at_the_end(const std::string& line) {
  const auto deadline = steady_clock::now() + kLittlePatience;
  return process_.send(line, [&] {
    return steady_clock::now() < deadline ? absl::OkStatus() : absl::CancelledError("it does not listen");
  });
}

absl::Status ProgramEngine::end(bool first) {
  if (over_) return absl::OkStatus();
  over_ = true;
  // A step that nobody waits for any more, or an evaluation, which may be long.
  const bool computes = owed_ > (early_ ? 1 : 0);
  withdraw();
  log_steps();
  const std::chrono::duration<double> limit(options_.after_limit_s > 0 ? options_.after_limit_s : kForEverS);
  const auto patience = computes && options_.start.role == Role::kEvaluator
                            ? kLittlePatience
                            : std::chrono::duration_cast<std::chrono::milliseconds>(limit);
  const auto until = steady_clock::now() + patience;
  // A program that is gone has done what it wanted.
  say_at_the_end(end_line("the job is over", false, first)).IgnoreError();
  process_.say_no_more();
  const std::optional<Failed> failure = failure_after_the_job(until);
  process_.set_patience(
      std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now())));
  const auto how = process_.wait_for_end();
  if (how ? how->empty() : computes) return absl::OkStatus();
  if (how && failure)
    return absl::FailedPreconditionError(fmt::format(
        "{}: {} (after the job was over)", failure->where.empty() ? name_ : failure->where, failure->text));
  return absl::FailedPreconditionError(
      how ? fmt::format("{}: {} after the job was over", name_, *how)
          : fmt::format(
                "{}: it still ran {} s after the job was over, as program.after_limit_s allows, and is "
                "killed",
                name_, options_.after_limit_s));
}

std::optional<Failed> ProgramEngine::failure_after_the_job(steady_clock::time_point until) {
  while (true) {
    const auto line = process_.receive([&] {
      return steady_clock::now() < until ? absl::OkStatus() : absl::DeadlineExceededError("it still runs");
    });
    if (!line.ok()) return std::nullopt;
    const auto answer = parse_answer(*line);
    const auto* const failure = answer.ok() ? std::get_if<Failed>(&*answer) : nullptr;
    if (failure != nullptr) return *failure;
  }
}

absl::Status ProgramEngine::introduce() {
  PACELINE_ASSIGN_OR_RETURN(Answer answer,
                            ask(line_of(options_.start), options_.keep_going ? options_.keep_going : always));
  Model* model = std::get_if<Model>(&answer);
  if (model == nullptr) return failed(absl::DataLossError("answered out of turn"));
  model_ = std::move(*model);
  if (options_.start.stages && options_.start.role == Role::kWorker)
    PACELINE_RETURN_IF_ERROR(check_cut(name_, model_));
  if (options_.bfloat16 && model_.bfloat16) model_.layout.set_narrow(model_.layout.leading_bfloat16());
  return send(layout_line(model_.layout));
}

absl::Status ProgramEngine::failed(const absl::Status& why) {
  if (over_) return absl::FailedPreconditionError(name_ + ": the program has ended");
  over_ = true;
  const std::string what = name_ + ": the program ";
  if (!absl::IsUnavailable(why)) return absl::FailedPreconditionError(what + std::string(why.message()));
  process_.set_patience(kLittlePatience);
  const std::string how = process_.how_it_ended();
  // A program that failed has said why.
  const char* const advice = how != kNoFailure ? ""
                             : model_.layout.tensors().empty()
                                 ? " before it said what it trains; a Python program calls paceline.join()"
                                 : " before the job was over; let its loop end by itself";
  return with_exit_reason(absl::FailedPreconditionError(what + "ended (" + how + ")" + advice),
                          process_.exit_reason());
}

absl::Status ProgramEngine::no_result(const Answer& answer) {
  const auto* none = std::get_if<OutOfMemory>(&answer);
  if (none == nullptr || !options_.start.recuts) return failed(absl::DataLossError("answered out of turn"));
  return absl::ResourceExhaustedError(
      fmt::format("{}: {}", none->where.empty() ? name_ : none->where, none->text));
}

absl::Status ProgramEngine::send(const std::string& line) {
  if (over_) return failed(absl::OkStatus());
  const absl::Status sent = process_.send(line, [] { return absl::OkStatus(); });
  // The program's last message says more than that the program does not read.
  return sent.ok() ? sent : answer(always).status();
}

absl::StatusOr<Answer> ProgramEngine::ask(const std::string& line, const engine::KeepGoing& keep_going,
                                          double limit_s, const std::string& next) {
  std::string lines;
  if (owed_ == 1 && line == sent_along_) {
    if (over_) return failed(absl::OkStatus());
  } else {
    PACELINE_RETURN_IF_ERROR(drain(keep_going));
    lines = take_later() + line;
    owed_ += 1;
  }
  sent_along_ = next;
  if (!next.empty()) owed_ += 1;
  PACELINE_RETURN_IF_ERROR(send(lines + next));
  limit_s_ = limit_s;
  return answer(keep_going);
}

std::string ProgramEngine::take_later() {
  const std::lock_guard lock(sharing_);
  return std::exchange(later_, "");
}

absl::Status ProgramEngine::drain(const engine::KeepGoing& keep_going) {
  if (over_) return failed(absl::OkStatus());  // the program answers no more
  withdraw();
  sent_along_.clear();
  while (owed_ > 0) PACELINE_RETURN_IF_ERROR(answer(keep_going).status());
  return absl::OkStatus();
}

absl::StatusOr<Answer> ProgramEngine::answer(const engine::KeepGoing& keep_going) {
  if (here_.empty()) {
    PACELINE_ASSIGN_OR_RETURN(here_.emplace_back(), receive(patience(keep_going)));
  }
  Answer answer = std::move(here_.front());
  here_.pop_front();
  owed_ -= 1;
  return answer;
}

std::function<absl::Status()> ProgramEngine::patience(const engine::KeepGoing& keep_going) const {
  return [this, &keep_going, start = steady_clock::now(), last = steady_clock::now(),
          still_since = std::optional<steady_clock::time_point>()]() mutable -> absl::Status {
    if (!keep_going()) return absl::CancelledError("the iteration was given up");
    const auto now = steady_clock::now();
    if (now - last > kOwnPause) {
      start += now - last;
      still_since.reset();
    }
    last = now;
    if (!process_.stands_still())
      still_since.reset();
    else if (!still_since)
      still_since = now;
    if (still_since && now - *still_since > kStandsStill)
      return absl::DeadlineExceededError("was stopped by a signal and does not go on");
    const std::chrono::duration<double> taken = now - start;
    if (limit_s_ > 0 && taken.count() > limit_s_) {
      return absl::DeadlineExceededError(
          fmt::format("has not answered for {} s, as program.step_limit_s allows", limit_s_));
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<Answer> ProgramEngine::receive(const std::function<absl::Status()>& patience) {
  const auto line = process_.receive(patience);
  if (absl::IsCancelled(line.status())) return line.status();
  if (!line.ok()) return failed(line.status());
  auto answer = parse_answer(*line);
  if (!answer.ok()) return failed(answer.status());
  if (const auto* error = std::get_if<Failed>(&*answer)) {
    over_ = true;
    too_few_ = error->too_few;
    if (!error->traceback.empty()) spdlog::error("{}:\n{}", name_, error->traceback);
    return absl::FailedPreconditionError(error->where.empty()
                                             ? fmt::format("{}: {}", name_, error->text)
                                             : fmt::format("{}: {}", error->where, error->text));
  }
  learn(*answer);
  return answer;
}

// The program says each length once, in an answer that may be of no use otherwise.
void ProgramEngine::learn(Answer& answer) {
  std::vector<engine::ShardLength> more;
  if (auto* const stepped = std::get_if<Stepped>(&answer)) more = std::move(stepped->lengths);
  if (auto* const finished = std::get_if<Finished>(&answer)) more = std::move(finished->lengths);
  std::move(more.begin(), more.end(), std::back_inserter(lengths_));
}

void ProgramEngine::share(const engine::Memory& memory) {
  const std::lock_guard lock(sharing_);
  memories_.add(memory);
}

void ProgramEngine::forget(const std::byte* base) {
  const std::lock_guard lock(sharing_);
  memories_.remove(base);
}

template <class Float>
absl::StatusOr<std::vector<PlacedRun>> ProgramEngine::runs_of(std::span<Float* const> pointers) {
  const std::vector<const float*> all(pointers.begin(), pointers.end());
  std::string lines;
  std::optional<std::vector<PlacedRun>> runs;
  {
    const std::lock_guard lock(sharing_);
    runs = memories_.runs_of(model_.layout, all, lines);
  }
  PACELINE_CHECK(runs.has_value(), "{}: a tensor in memory that the program was not told of", name_);
  if (!lines.empty()) PACELINE_RETURN_IF_ERROR(send(lines));
  return *std::move(runs);
}

absl::Status ProgramEngine::initial_weights(std::span<float> out) {
  const std::vector<float*> to = engine::tensor_pointers(model_.layout, out.data());
  PACELINE_ASSIGN_OR_RETURN(const auto runs, runs_of(std::span<float* const>(to)));
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(initial_line(runs), always));
  if (!std::holds_alternative<Done>(answer)) return failed(absl::DataLossError("answered out of turn"));
  return absl::OkStatus();
}

absl::Status ProgramEngine::first_state(std::span<float> out) {
  std::vector<std::vector<PlacedRun>> streams;
  const auto floats = static_cast<std::size_t>(model_.layout.size());
  for (; out.size() >= floats; out = out.subspan(floats)) {
    const std::vector<float*> to = engine::tensor_pointers(model_.layout, out.data());
    PACELINE_ASSIGN_OR_RETURN(auto runs, runs_of(std::span<float* const>(to)));
    streams.push_back(std::move(runs));
  }
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(optimizer_state_line(streams), always));
  if (!std::holds_alternative<Done>(answer)) return failed(absl::DataLossError("answered out of turn"));
  return absl::OkStatus();
}

absl::Status ProgramEngine::prepare(const engine::Batch& batch) {
  batch_ = batch;
  return absl::OkStatus();
}

absl::StatusOr<engine::StepResult> ProgramEngine::step(const engine::Weights& weights,
                                                       std::span<float* const> gradients,
                                                       std::int64_t micro_batch,
                                                       const engine::KeepGoing& keep_going) {
  PACELINE_CHECK(batch_.has_value(), "a step before its batch");
  PACELINE_ASSIGN_OR_RETURN(const auto from, runs_of(weights.tensors));
  PACELINE_ASSIGN_OR_RETURN(const auto to, runs_of(gradients));
  if (model_.words && weights.on_card && weights.reach == 0 && in_one_memory(from) && in_one_memory(to))
    return step_with_words(from, to, micro_batch, keep_going);
  return step_whole(step_line(*batch_, from, to, micro_batch, {weights.reach, weights.direction}),
                    keep_going);
}

absl::StatusOr<std::unique_ptr<engine::Stage>> ProgramEngine::make_stage(std::int64_t begin,
                                                                         std::int64_t end) {
  if (0 <= begin && begin < end && end <= std::ssize(model_.units))
    return std::make_unique<ProgramStage>(*this, stages_made_++, begin, end);
  return absl::InvalidArgumentError(
      fmt::format("{}: units {} to {} of {} are no stage", name_, begin, end, units()));
}

absl::Status ProgramEngine::check_alive() {
  if (over_ || !process_.ended_within(0ms)) return absl::OkStatus();
  // Behind answers that nobody wants any more may be the reason.
  while (true) PACELINE_RETURN_IF_ERROR(receive([] { return absl::OkStatus(); }).status());
}

absl::StatusOr<engine::Evaluation> ProgramEngine::evaluate(std::span<const float* const> weights,
                                                           std::int64_t,
                                                           const engine::KeepGoing& keep_going) {
  // While the program is busy with a question that was given up, this memory may go again, before the program maps it.
  PACELINE_RETURN_IF_ERROR(drain(keep_going));
  PACELINE_ASSIGN_OR_RETURN(const auto from, runs_of(weights));
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(evaluate_line(from), keep_going));
  const auto* evaluated = std::get_if<Evaluated>(&answer);
  if (evaluated == nullptr) return failed(absl::DataLossError("answered out of turn"));
  return evaluated->result;
}

absl::Status ProgramEngine::take_last(std::span<const float* const> weights,
                                      const engine::KeepGoing& keep_going) {
  if (!model_.last) return absl::OkStatus();
  // This memory may go, too.
  PACELINE_RETURN_IF_ERROR(drain(keep_going));
  PACELINE_ASSIGN_OR_RETURN(const auto from, runs_of(weights));
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(last_line(from), keep_going));
  if (!std::holds_alternative<Done>(answer)) return failed(absl::DataLossError("answered out of turn"));
  return absl::OkStatus();
}

}  // namespace paceline::program
