#include "paceline/tools/cli/program_probe.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/memory_file.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/computing/program/program_engine.h"
#include "paceline/computing/program/said_before.h"
#include "paceline/processes/launch/oom_kills.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"

namespace paceline::cli {

namespace {

// The end of what it printed.
std::string tail_of(int file) {
  constexpr off_t kMost = 4000;
  const off_t size = lseek(file, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::min(size, kMost)), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

program::StartOptions probe_options(const config::JobConfig& job) {
  return program::start_options(job, program::Role::kProbe, "probe", job.devices.front().threads);
}

using Probe = std::unique_ptr<program::ProgramEngine>;

absl::StatusOr<Probe> start_probe(program::StartOptions options) {
  const int printed = new_memory_file("paceline-probe").release();
  if (printed < 0) return absl::ResourceExhaustedError("no memory for what the program prints");
  const absl::Cleanup close_printed = [&] { close(printed); };
  options.process.output = printed;
  options.keep_going = [] { return launch::stop_signals() == 0; };
  const std::int64_t killed_before = launch::oom_kills();
  auto engine = program::ProgramEngine::start(options);
  if (launch::stop_signals() > 0) return absl::CancelledError("stopped before anything was trained");
  if (engine.ok()) return engine;
  launch::print(stderr, tail_of(printed));
  const bool for_memory =
      exit_reason_of(engine.status()) == ExitReason::kKilled && launch::oom_kills() > killed_before;
  if (!for_memory) return engine;
  return absl::ResourceExhaustedError("out of memory: " + message_of(engine.status()));
}

// A signal that ended this process at once would leave the program's own processes behind, and what it has made on disk.
absl::StatusOr<program::Model> ask_probe(program::StartOptions options) {
  const launch::StopSignalsCaught caught;
  PACELINE_ASSIGN_OR_RETURN(const Probe probe, start_probe(std::move(options)));
  return probe->model();
}

// On a GPU each process has a card of its own, and others do not slow it down.
absl::StatusOr<std::vector<Probe>> start_beside(program::StartOptions options, int count) {
  options.start.beside = true;
  std::vector<Probe> probes;
  while (std::ssize(probes) < count) {
    PACELINE_ASSIGN_OR_RETURN(Probe probe, start_probe(options));
    if (probe->model().device != "cpu" || !probe->model().uncut.empty()) break;
    probes.push_back(std::move(probe));
  }
  return probes;
}

// The first unit of the second of two stages that take about the same time.
std::int64_t middle_of(const program::MeasuredModel& model) {
  const auto ms = [](const program::MeasuredUnit& unit) {
    return unit.forward_ms.back() + unit.backward_ms.back();
  };
  double all = 0, before = 0;
  for (const program::MeasuredUnit& unit : model.units) all += ms(unit);
  std::int64_t cut = 0;
  while (cut + 1 < std::ssize(model.units) && (cut == 0 || before < all / 2))
    before += ms(model.units[static_cast<std::size_t>(cut++)]);
  return cut;
}

// The program as the process of a worker, which nobody tells that its job is over.
absl::StatusOr<std::optional<PassTimes>> passes_of(const config::JobConfig& job,
                                                   const program::MeasuredModel& measured) {
  if (measured.units.size() < 2) return std::nullopt;
  const config::DeviceConfig& device = job.devices.front();
  program::StartOptions options =
      program::start_options(job, program::Role::kWorker, device.name, device.threads);
  options.start.stages = true;
  PACELINE_ASSIGN_OR_RETURN(const Probe worker, start_probe(std::move(options)));
  if (worker->units() != std::ssize(measured.units))
    return absl::FailedPreconditionError("the program's model has other units when it is started again");
  return measure_passes(*worker, measured.micro_batches, middle_of(measured));
}

}  // namespace

absl::StatusOr<program::Model> probe_program(const config::JobConfig& job, const std::string& said,
                                             AskMemory memory) {
  program::StartOptions options = probe_options(job);
  options.start.card_memory = memory == AskMemory::kYes;
  if (auto known = program::model_said_before(said, options.start)) return *std::move(known);
  return ask_probe(std::move(options));
}

absl::StatusOr<ProbedProfile> profile_program(const config::JobConfig& job, std::int64_t micro_batch,
                                              int beside) {
  program::StartOptions options = probe_options(job);
  options.start.stages = true;
  options.start.profile = micro_batch;
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Probe> others, start_beside(options, beside));
  PACELINE_ASSIGN_OR_RETURN(program::Model model, ask_probe(options));
  if (!model.uncut.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: the model has no profile, as it cannot be cut into stages: {}", options.name, model.uncut));
  }
  auto measured = program::parse_measured(model.text);
  if (!measured.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the program {}; a program of the Python package sends one", options.name,
                    std::string(measured.status().message())));
  }
  auto passes = passes_of(job, *measured);
  if (!passes.ok()) {
    launch::print(stderr, fmt::format("{}; so the profile has no overhead of a micro-batch\n",
                                      std::string(passes.status().message())));
    passes = std::nullopt;
  }
  return ProbedProfile{std::move(model), *std::move(measured), *std::move(passes)};
}

}  // namespace paceline::cli
