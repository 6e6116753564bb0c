#include "paceline/tools/cli/profile_command.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/program_version.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/cluster_file.h"
#include "paceline/parameters/ps/update_rule.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/records/tables/text_table.h"
#include "paceline/tools/cli/output.h"
#include "paceline/tools/cli/train_command.h"
#include "paceline/tools/cli/update_time.h"

namespace paceline::cli {

namespace {

using program::MeasuredModel;
using program::MeasuredUnit;

std::string shown_program(const RunOptions& options) {
  return report::printable(options.module.empty() ? options.program : "-m " + options.module);
}

// "2, 4 and 8".
std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == sizes.size() ? " and " : ", ", sizes[i]);
  return text;
}

// The lines above the table and above the layers of the file.
std::vector<std::string> about(const ProfileOptions& options, const MeasuredProgram& measured) {
  const MeasuredModel& model = measured.probed.measured;
  std::int64_t parameters = 0, trained = 0;
  for (const MeasuredUnit& unit : model.units) parameters += unit.parameters, trained += unit.trained;
  const runs::RunOrigin here = runs::this_origin(kProgramVersion);
  const std::string device = measured.probed.model.device;
  return {fmt::format("{} of {}: {} parameters, {} trained", report::printable(model.name),
                      shown_program(options.program), with_thousands(parameters),
                      trained == parameters ? "all" : with_thousands(trained)),
          device == "cpu" ? fmt::format("on {}, {} thread{}", here.processor, model.threads,
                                        model.threads == 1 ? "" : "s")
                          : fmt::format("on {}", report::printable(device)),
          fmt::format("{}, paceline {}", here.date, here.version),
          fmt::format("micro-batches of {} samples", sizes_text(model.micro_batches))};
}

std::string megabytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? fmt::format("{:.4g}", static_cast<double>(*bytes) / 1e6) : report::kUnknownCell;
}

std::string kilobytes(std::int64_t bytes) { return fmt::format("{:.6g}", static_cast<double>(bytes) / 1e3); }

std::string times_table(const MeasuredProgram& measured) {
  const MeasuredModel& model = measured.probed.measured;
  report::TextTable table({"", "parameters", "trained", "forward ms", "backward ms", "fixed ms",
                           "ms a sample", "sends kB", "keeps kB", "peak MB"},
                          report::TextTable::LastColumn::kNumbers);
  MeasuredUnit all;
  planner::LayerProfile sum;
  double forward = 0, backward = 0;
  const auto ms = [](double value) { return fmt::format("{:.4g}", value); };
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const MeasuredUnit& unit = model.units[i];
    const planner::LayerProfile& layer = measured.profile.layers[i];
    table.add({report::printable(unit.name), with_thousands(unit.parameters), with_thousands(unit.trained),
               ms(unit.forward_ms.back()), ms(unit.backward_ms.back()), ms(layer.fixed_ms), ms(layer.work_ms),
               kilobytes(unit.sent_bytes), kilobytes(unit.kept_bytes), megabytes(unit.peak_bytes)});
    all.parameters += unit.parameters, all.trained += unit.trained, all.kept_bytes += unit.kept_bytes;
    forward += unit.forward_ms.back(), backward += unit.backward_ms.back();
    sum.fixed_ms += layer.fixed_ms, sum.work_ms += layer.work_ms;
  }
  const std::string none = report::kUnknownCell;
  table.add({"together", with_thousands(all.parameters), with_thousands(all.trained), ms(forward),
             ms(backward), ms(sum.fixed_ms), ms(sum.work_ms), none, kilobytes(all.kept_bytes), none});
  if (model.whole) {
    table.add({"in one piece", "", "", ms(model.whole->forward_ms), ms(model.whole->backward_ms), "", "", "",
               "", megabytes(model.whole->peak_bytes)});
  }
  return table.text();
}

// The last sizes' overhead.
std::string overhead_text(const planner::ModelProfile& profile) {
  if (profile.step_overhead.empty()) return "";
  return fmt::format(
      "A micro-batch of {} takes {:.3g} ms more in a step of the whole model, and {:.3g} ms more in each "
      "stage of\n"
      "a cut one: its samples are loaded, and messages go to the program and back.\n",
      profile.step_overhead.back().first, profile.step_overhead.back().second,
      profile.stage_overhead.back().second);
}

std::string legend(const MeasuredProgram& measured) {
  const MeasuredModel& model = measured.probed.measured;
  return fmt::format(
             "forward, backward, peak: one micro-batch of {}; a micro-batch of u samples takes about fixed + "
             "u × ms a sample.\n"
             "sends, keeps: of one sample, to the next part and until the backward pass. The first part has "
             "what comes\n"
             "before the blocks, the last one what comes behind them.\n",
             model.micro_batches.back()) +
         overhead_text(measured.profile);
}

std::string file_text(const ProfileOptions& options, const MeasuredProgram& measured) {
  std::string text;
  for (const std::string& line : about(options, measured)) text += "# " + line + "\n";
  return text + "\n" + config::profile_text(measured.profile);
}

// Adds the time that micro-batches take beside the model's units.
void add_overheads(MeasuredProgram& measured) {
  const PassTimes& passes = *measured.probed.passes;
  planner::ModelProfile& profile = measured.profile;
  const std::vector<std::int64_t>& sizes = measured.probed.measured.micro_batches;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double units = 0;
    for (const planner::LayerProfile& layer : profile.layers) units += layer.ms(sizes[i]);
    profile.step_overhead.emplace_back(sizes[i], std::max(0.0, passes.step_ms[i] - units));
    profile.stage_overhead.emplace_back(sizes[i], std::max(0.0, (passes.stages_ms[i] - units) / 2));
  }
  // On a GPU this would be the way of the weights through the host's memory, which they need not take.
  if (measured.probed.model.device == "cpu") profile.update_ms += passes.once_ms;
}

}  // namespace

absl::StatusOr<MeasuredProgram> measure_program(const ProfileOptions& options) {
  if (options.program.program.ends_with(".toml"))
    return absl::InvalidArgumentError(
        fmt::format("{}: is a job file, not a program; name the program", options.program.program));
  TrainOptions train;
  train.text = job_of(options.program);
  train.sets = {fmt::format("threads={}", options.threads)};
  PACELINE_ASSIGN_OR_RETURN(const std::string resolved, resolved_job(train));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(resolved, "the command line"));
  MeasuredProgram measured;
  PACELINE_ASSIGN_OR_RETURN(
      measured.probed, profile_program(job, options.micro_batch > 0 ? options.micro_batch : kUsualMicroBatch,
                                       options.processes - 1));
  const std::vector<std::string>& asked = measured.probed.model.sets;
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig whole,
                            config::parse_job(resolved, "the command line", asked));
  const bool says_optimizer = std::any_of(
      asked.begin(), asked.end(), [](const std::string& set) { return set.starts_with("optimizer.name="); });
  const int streams = says_optimizer ? ps::state_streams(whole.optimizer.kind) : 0;
  measured.profile = program::profile_of(measured.probed.measured, streams);
  std::int64_t trained = 0;
  for (const MeasuredUnit& unit : measured.probed.measured.units) trained += unit.trained;
  measured.profile.update_ms = measured_update_ms(whole.optimizer, trained);
  if (measured.probed.passes) add_overheads(measured);
  return measured;
}

absl::Status profile_command(const ProfileOptions& options) {
  PACELINE_RETURN_IF_ERROR(check_output(options.output));
  PACELINE_ASSIGN_OR_RETURN(const MeasuredProgram measured, measure_program(options));
  if (options.output != "-") {
    launch::print(stdout, fmt::format("{}\n\n{}\n{}", absl::StrJoin(about(options, measured), "\n"),
                                      times_table(measured), legend(measured)));
  }
  if (options.output.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(write_output(options.output, file_text(options, measured)));
  if (options.output == "-") return absl::OkStatus();
  launch::print(stderr, fmt::format("{0} is written; paceline plan CLUSTER.toml --profile {0}\n",
                                    report::printable(options.output)));
  return absl::OkStatus();
}

}  // namespace paceline::cli
