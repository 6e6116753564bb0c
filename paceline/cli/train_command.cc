#include "paceline/cli/train_command.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/asked_job.h"
#include "paceline/cli/program_probe.h"
#include "paceline/cli/torch_program.h"
#include "paceline/engine/built_in.h"
#include "paceline/launch/display.h"
#include "paceline/launch/failed_run.h"
#include "paceline/launch/local_cluster.h"
#include "paceline/launch/say.h"
#include "paceline/launch/stop_signals.h"
#include "paceline/launch/watch.h"
#include "paceline/report/tables.h"
#include "paceline/runs/job_file.h"
#include "paceline/runs/plan_job.h"
#include "paceline/runs/run_info.h"
#include "paceline/runs/run_report.h"
#include "paceline/runs/unfinished_run.h"
#include "paceline/store/files.h"
#include "paceline/store/journal_reader.h"
#include "paceline/store/run_folder.h"
#include "paceline/store/weights_file.h"
#include "paceline/virtual_time/virtual_train.h"

namespace paceline::cli {

namespace {

absl::StatusOr<std::string> new_folder(const config::JobConfig& job, const std::string& job_toml,
                                       const std::string& asked) {
  const std::string base = std::filesystem::absolute(job.runs_dir);
  PACELINE_ASSIGN_OR_RETURN(const auto folder,
                            store::RunFolder::create(base, job.name, policy::to_string(job.policy),
                                                     std::chrono::system_clock::now(), job_toml));
  PACELINE_RETURN_IF_ERROR(store::atomic_write(folder.paths().asked(), asked));
  return folder.paths().root.string();
}

// The folder to go on in, with the job as it is now. Errors: somebody uses it.
absl::StatusOr<std::string> old_folder(const TrainOptions& options, const std::string& job_toml) {
  PACELINE_ASSIGN_OR_RETURN(const auto folder,
                            store::RunFolder::resume(std::filesystem::absolute(options.resume)));
  PACELINE_ASSIGN_OR_RETURN(const std::string before, runs::read_job_file(folder.paths().job()));
  if (job_toml != before) PACELINE_RETURN_IF_ERROR(store::atomic_write(folder.paths().job(), job_toml));
  return folder.paths().root.string();
}

absl::Status train_live(const std::string& run, const config::JobConfig& job, const TrainOptions& options) {
  if (!options.resume.empty() && runs::is_over(run, job)) {
    launch::say(stderr, "all of it is trained\n");
    return absl::OkStatus();
  }
  const int signals_before = launch::stop_signals();
  const bool resume = !options.resume.empty();
  launch::Display display(policy::to_string(job.policy), options.shown);
  launch::Household household =
      options.household ? options.household(run, job, resume) : launch::whole_household(run, job, resume);
  household.again = options.again;
  PACELINE_ASSIGN_OR_RETURN(launch::LocalCluster cluster,
                            launch::LocalCluster::start(std::move(household), job));
  return launch::watch(cluster, display, signals_before, "interrupted");
}

// A run that is resumed stays what it was: its times are either modelled or the wall's.
absl::Status stay_in_its_world(TrainOptions& options) {
  if (options.resume.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(options.resume));
  PACELINE_ASSIGN_OR_RETURN(const store::JournalReader journal, store::JournalReader::open(paths.journal()));
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal.run());
  const bool was_virtual = runs::world_of(about) == report::World::kVirtual;
  if (options.in_virtual_time && !was_virtual) {
    return absl::InvalidArgumentError(
        fmt::format("{}: this run is not a virtual one; resume it without --virtual", options.resume));
  }
  options.in_virtual_time = was_virtual;
  return absl::OkStatus();
}

}  // namespace

namespace {

absl::StatusOr<planner::ModelProfile> measure_model(const config::JobConfig& job) {
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  return engine::built_in()->profile(job);
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// One without a slash that is not here is looked for in PATH.
std::string absolute_program(const std::string& path) {
  std::error_code ignored;
  const bool named = path.find('/') == std::string::npos && !std::filesystem::is_regular_file(path, ignored);
  return named ? path : absolute_path(path);
}

absl::Status check_initial_weights(const config::JobConfig& job, const ps::Layout& layout) {
  if (job.initial_weights.empty()) return absl::OkStatus();
  std::vector<float> weights(static_cast<std::size_t>(layout.size()));
  return store::read_weights(job.initial_weights, layout, weights);
}

}  // namespace

std::string absolute_source(const std::string& source) {
  const std::size_t colon = source.find(':');
  if (colon == std::string::npos) return source;
  return source.substr(0, colon + 1) + absolute_path(source.substr(colon + 1));
}

absl::Status check_data_and_model(const config::JobConfig& job) {
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(
      const auto engines,
      engine::built_in()->make(job, engine::BuiltIn::Use::kTrain, job.replicas.front().threads, 1));
  return check_initial_weights(job, engines.front()->layout());
}

absl::StatusOr<JobText> job_text(const TrainOptions& options) {
  if (!options.text.empty()) return JobText{options.text, "the command line"};
  JobText job{"", options.job_file};
  if (!options.resume.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(options.resume));
    job.file = paths.job();
  }
  if (job.file.empty()) return JobText{"", "the default job"};
  PACELINE_ASSIGN_OR_RETURN(job.text, runs::read_job_file(job.file));
  return job;
}

absl::StatusOr<std::string> checked_job(TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string resolved, resolved_job(options));
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig job, config::parse_job(resolved, "job.toml"));
  if (!options.resume.empty()) job.initial_weights.clear();  // a checkpoint has later ones
  if (!job.program) {
    PACELINE_RETURN_IF_ERROR(check_data_and_model(job));
    return resolved;
  }
  PACELINE_ASSIGN_OR_RETURN(const program::Model model, probe_program(job));
  options.program = model.text;
  PACELINE_RETURN_IF_ERROR(check_initial_weights(job, model.layout));
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(options));
  return with_asked(resolved, model.sets, said.file, job.program->run);
}

absl::StatusOr<std::string> resolved_job(const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(options));
  const auto& [text, file] = said;
  std::vector<std::string> sets;
  if (!options.resume.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig before, config::parse_job(text, file));
    PACELINE_ASSIGN_OR_RETURN(sets, runs::last_plan(before, store::RunPaths{options.resume}));
  }
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, file, sets));
  if (!job.initial_weights.empty()) sets.push_back("model.weights=" + absolute_path(job.initial_weights));
  if (job.program) {
    sets.push_back("program.run=" + absolute_program(job.program->run));
    sets.push_back("program.python=" + absolute_program(job.program->python));
    const std::string& directory = job.program->directory;
    sets.push_back("program.directory=" + absolute_path(directory.empty() ? "." : directory));
  } else {
    sets.push_back("data.source=" + absolute_source(job.data.source));
  }
  const auto& [listen, certs, token_file] = job.reach;
  if (!certs.empty()) sets.push_back("network.certs=" + absolute_path(certs));
  if (!token_file.empty()) sets.push_back("network.token_file=" + absolute_path(token_file));
  return config::resolve_job(text, file, sets);
}

absl::StatusOr<TrainedRun> train(const std::string& job_text, const TrainOptions& options) {
  const auto time = options.in_virtual_time ? config::RunTime::kVirtual : config::RunTime::kWall;
  PACELINE_ASSIGN_OR_RETURN(const auto planned, runs::plan_job(job_text, time, measure_model));
  const std::string& job_toml = planned.job_toml;
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  if (!planned.line.empty()) launch::say(stderr, planned.line + "\n");
  const bool resume = !options.resume.empty();
  TrainedRun run;
  PACELINE_ASSIGN_OR_RETURN(run.folder,
                            resume ? old_folder(options, job_toml) : new_folder(job, job_toml, job_text));
  if (!options.program.empty())
    PACELINE_RETURN_IF_ERROR(store::atomic_write(store::RunPaths{run.folder}.program(), options.program));
  const int signals_before = launch::stop_signals();
  absl::Status outcome = options.in_virtual_time
                             ? virtual_time::train_virtually(run.folder, resume, options.shown)
                             : train_live(run.folder, job, options);
  run.interrupted = launch::stop_signals() > signals_before;
  if (outcome.ok() && run.interrupted && !launch::has_trained(run.folder))
    outcome = absl::CancelledError("stopped before it trained");
  if (!outcome.ok()) return launch::end_of_failed(outcome, run.folder, resume, options.command);
  return run;
}

namespace {

absl::Status take_up_unfinished(TrainOptions& options, std::string& job_toml) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  const auto found = runs::unfinished_run(job.runs_dir, job_toml);
  if (!found || !runs::may_be_taken_up(*found)) return absl::OkStatus();
  fmt::print(stderr, "going on with {}, which ended without a goodbye; --new begins another run\n",
             found->folder);
  options.resume = found->folder;
  options.again = true;
  options.job_file.clear();
  options.sets.clear();
  PACELINE_ASSIGN_OR_RETURN(job_toml, checked_job(options));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> train_command(TrainOptions options) {
  PACELINE_RETURN_IF_ERROR(stay_in_its_world(options));
  PACELINE_ASSIGN_OR_RETURN(std::string job_toml, checked_job(options));
  if (options.take_up) PACELINE_RETURN_IF_ERROR(take_up_unfinished(options, job_toml));
  launch::catch_stop_signals();
  PACELINE_ASSIGN_OR_RETURN(const TrainedRun run, train(job_toml, options));
  return show_trained(run, options);
}

absl::StatusOr<int> show_trained(const TrainedRun& run, const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(run.folder));
  PACELINE_RETURN_IF_ERROR(runs::write_report(run.folder, report));
  if (options.shown == launch::Shown::kJson) {
    launch::say(stdout, report.document.at("summary").dump() + "\n");
  } else {
    launch::say(stdout, fmt::format("{}\nreport: {}/report.html\n", report::replica_table(report.summary),
                                    run.folder));
    if (options.in_virtual_time)
      launch::say(stdout, fmt::format("trace: {}\n",
                                      report.document.at("summary").at("trace_hash").get<std::string>()));
  }
  if (!run.interrupted) return 0;
  launch::say(stderr, fmt::format("stopped; resume with: {} --resume {}\n", options.command, run.folder));
  return launch::exit_of_stop();
}

}  // namespace paceline::cli
