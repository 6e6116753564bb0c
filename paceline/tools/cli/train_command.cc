#include "paceline/tools/cli/train_command.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/exit_reason.h"
#include "paceline/base/program_version.h"
#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/computing/program/units.h"
#include "paceline/formats/config/origin.h"
#include "paceline/formats/config/resumed_job.h"
#include "paceline/processes/launch/display.h"
#include "paceline/processes/launch/failed_run.h"
#include "paceline/processes/launch/host_memory.h"
#include "paceline/processes/launch/local_cluster.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/launch/watch.h"
#include "paceline/processes/rpc/port.h"
#include "paceline/processes/runs/changed_job.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/plan_job.h"
#include "paceline/processes/runs/run_checkpoints.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/processes/runs/run_report.h"
#include "paceline/processes/runs/unfinished_run.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/weights_file.h"
#include "paceline/records/tables/tables.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/simulation/virtual_time/virtual_train.h"
#include "paceline/tools/cli/asked_job.h"
#include "paceline/tools/cli/card_settings.h"
#include "paceline/tools/cli/job_check.h"
#include "paceline/tools/cli/models_command.h"
#include "paceline/tools/cli/program.h"
#include "paceline/tools/cli/program_probe.h"
#include "paceline/tools/cli/standard_input.h"
#include "paceline/tools/cli/startable_program.h"
#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/unused_gpu.h"
#include "paceline/tools/cli/watchers.h"

namespace paceline::cli {

namespace {

// Its processes tell each other the run's folder in messages, which are UTF-8.
absl::Status check_is_text(const std::string& folder) {
  const std::string shown = report::printable(folder);
  if (shown == folder) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: the name of this folder is not UTF-8, or has control characters; name another one "
                  "(runs_dir in the job file)",
                  shown));
}

absl::StatusOr<std::string> new_folder(const config::JobConfig& job, const std::string& job_toml,
                                       const std::string& asked) {
  PACELINE_ASSIGN_OR_RETURN(const std::string base, store::absolute_path(job.runs_dir));
  PACELINE_RETURN_IF_ERROR(check_is_text(base));
  PACELINE_ASSIGN_OR_RETURN(const auto folder,
                            store::RunFolder::create(base, job.name, runs::method_of(job),
                                                     std::chrono::system_clock::now(), job_toml));
  PACELINE_RETURN_IF_ERROR(store::atomic_write(folder.paths().asked(), asked));
  return folder.paths().root.string();
}

// The folder in which to go on, with the job as it is now, which `changed` can take back. Errors: another process uses it.
absl::StatusOr<std::string> old_folder(const TrainOptions& options, const std::string& job_toml,
                                       std::optional<runs::ChangedJob>& changed) {
  PACELINE_ASSIGN_OR_RETURN(const std::string root, store::absolute_path(options.resume));
  PACELINE_RETURN_IF_ERROR(check_is_text(root));
  PACELINE_ASSIGN_OR_RETURN(const auto folder, store::RunFolder::resume(root));
  if (options.from >= 0) PACELINE_RETURN_IF_ERROR(runs::go_back_to(folder.paths(), Version(options.from)));
  PACELINE_ASSIGN_OR_RETURN(changed, runs::ChangedJob::record(folder.paths(), job_toml));
  return folder.paths().root.string();
}

// `logs_say_more`: than the error, if there is one. Sets what `trained` says beside its folder.
absl::Status train_live(const config::JobConfig& job, const TrainOptions& options, bool& logs_say_more,
                        TrainedRun& trained) {
  const std::string& run = trained.folder;
  const bool resume = !options.resume.empty();
  launch::Display display(runs::method_of(job), options.shown);
  launch::HostProcesses processes =
      options.processes ? options.processes(run, job, resume) : launch::all_processes(run, job, resume);
  processes.again = options.again;
  processes.only_checkpoint = options.from >= 0;
  const std::string why = job.hosts > 1 && options.processes
                              ? fmt::format("host {} was interrupted", processes.rank)
                              : "interrupted";
  PACELINE_ASSIGN_OR_RETURN(launch::LocalCluster cluster,
                            launch::LocalCluster::start(std::move(processes), job, options.fork_server));
  const absl::Status outcome = launch::watch(cluster, display, why, job.on_signal);
  logs_say_more |= cluster.logs_say_more();
  trained.after = cluster.after();
  trained.interrupted = launch::stop_signals() > 0 && cluster.stopped();
  if (!trained.interrupted) trained.by_other = cluster.interrupted();
  return outcome;
}

// A run that is resumed stays what it was: its times are either modelled or the wall's.
absl::Status stay_in_its_world(TrainOptions& options) {
  if (options.resume.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(options.resume));
  const auto journal = store::JournalReader::open(paths.journal());
  // The user moved a damaged journal away. The caller says what the run is.
  if (absl::IsNotFound(journal.status())) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(journal.status());
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal->run());
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

config::RunTime time_of(bool in_virtual_time) {
  return in_virtual_time ? config::RunTime::kVirtual : config::RunTime::kWall;
}

// A program has said it, or is asked once more: one that was asked for another variant of the job, whose replicas are whole
// models, did not say its units.
absl::StatusOr<planner::ModelProfile> profile_of_program(const config::JobConfig& job,
                                                         const std::string& said) {
  const auto known = program::parse_answer(said);
  const auto* said_model = known.ok() ? std::get_if<program::Model>(&*known) : nullptr;
  if (said_model != nullptr && !said_model->units.empty()) return program::profile_of(*said_model);
  PACELINE_ASSIGN_OR_RETURN(const program::Model model, probe_program(job, ""));
  PACELINE_RETURN_IF_ERROR(program::check_stages(job, model));
  return program::profile_of(model);
}

absl::StatusOr<planner::ModelProfile> measure_model(const config::JobConfig& job) {
  if (job.program) return profile_of_program(job, "");
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  return engine::built_in()->profile(job);
}

// Adds "key=path", if there is a path.
absl::Status add_path(const std::string& key, const std::string& path, std::vector<std::string>& sets) {
  if (path.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const std::string whole, store::absolute_path(path));
  sets.push_back(key + "=" + whole);
  return absl::OkStatus();
}

absl::Status add_program(const config::ProgramConfig& program, std::vector<std::string>& sets) {
  if (program.module.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const std::string run, startable_program(program.run, program.directory));
    sets.push_back("program.run=" + run);
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string python, absolute_program(program.python));
  sets.push_back("program.python=" + python);
  return add_path("program.directory", program.directory.empty() ? "." : program.directory, sets);
}

absl::Status check_is_no_folder(const std::string& job_file) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(job_file, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      store::find_run(job_file).ok()
          ? fmt::format("{}: is the folder of a run; go on with it: paceline train --resume {}", job_file,
                        shell_word(job_file))
          : fmt::format("{}: is a folder; name a job file", job_file));
}

absl::Status check_is_no_program(const std::string& job_file) {
  std::error_code ignored;
  if (!job_file.ends_with(".py") || !std::filesystem::exists(job_file, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{0}: is a Python program, not a job file; write paceline run {0}", job_file));
}

}  // namespace

absl::StatusOr<std::string> absolute_source(const std::string& source) {
  const std::size_t colon = source.find(':');
  // The loader of that source refuses one without a path.
  if (colon == std::string::npos || colon + 1 == source.size()) return source;
  PACELINE_ASSIGN_OR_RETURN(const std::string path, store::absolute_path(source.substr(colon + 1)));
  return source.substr(0, colon + 1) + path;
}

absl::StatusOr<JobSizes> read_data_and_model(const config::JobConfig& job) {
  PACELINE_RETURN_IF_ERROR(need_built_in_models());
  PACELINE_ASSIGN_OR_RETURN(const auto engines, engine::built_in()->make(job, engine::BuiltIn::Use::kTrain,
                                                                         job.devices.front().threads, 1));
  return JobSizes{engines.front()->layout(), engines.front()->samples(), engines.front()->note()};
}

namespace {

// A live run needs no libtorch in the process that starts it, unless that measures the model for a plan.
absl::StatusOr<JobSizes> find_sizes(const config::JobConfig& job, const std::string& job_toml,
                                    TrainOptions& options) {
  const bool measures = job.parallel.to_be_planned && job.parallel.model.layers.empty();
  if (options.in_virtual_time || measures || engine::built_in() != nullptr) return read_data_and_model(job);
  PACELINE_ASSIGN_OR_RETURN(ForkedAnswer forked, ask_fork_server(TorchQuestion::kSizes, job_toml));
  options.fork_server = std::move(forked.server);
  return sizes_in(forked.answer);
}

std::int64_t file_size_limit() {
  rlimit limit{};
  const bool limited =
      getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(INT64_MAX);
  return limited ? static_cast<std::int64_t>(limit.rlim_cur) : INT64_MAX;
}

}  // namespace

absl::Status check_fits(const config::JobConfig& job, const JobSizes& sizes, bool in_virtual_time) {
  PACELINE_RETURN_IF_ERROR(check_sizes(job, sizes.layout, sizes.samples));
  PACELINE_RETURN_IF_ERROR(check_memory(job, sizes.layout, launch::host_memory()));
  PACELINE_RETURN_IF_ERROR(check_file_size(job, sizes.layout, file_size_limit(), in_virtual_time));
  if (job.initial_weights.empty()) return absl::OkStatus();
  std::vector<float> weights(static_cast<std::size_t>(sizes.layout.size()));
  const absl::Status read = store::read_weights(job.initial_weights, sizes.layout, weights);
  return read.ok() ? read : runs::about_file("model.weights", read);
}

absl::StatusOr<JobText> job_text(const TrainOptions& options) {
  if (!options.text.empty()) return JobText{options.text, config::kCommandLine};
  JobText job{"", options.job_file};
  if (!options.resume.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(options.resume));
    job.file = paths.job();
  }
  if (job.file.empty()) return JobText{"", "the default job"};
  if (job.file == "-") {
    PACELINE_ASSIGN_OR_RETURN(job.text, read_standard_input());
    return JobText{job.text, kStandardInput};
  }
  PACELINE_RETURN_IF_ERROR(check_is_no_folder(job.file));
  PACELINE_RETURN_IF_ERROR(check_is_no_program(job.file));
  PACELINE_ASSIGN_OR_RETURN(job.text, options.resume.empty()
                                          ? read_named_file(job.file)
                                          : runs::read_recorded_job(store::RunPaths{options.resume}));
  return job;
}

absl::Status check_goes_on(const config::JobConfig& job, const TrainOptions& options,
                           std::int64_t whole_set) {
  if (options.resume.empty()) return absl::OkStatus();
  const store::RunPaths paths{options.resume};
  PACELINE_ASSIGN_OR_RETURN(const std::string text, runs::read_recorded_job(paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig before, config::parse_job(text, paths.job()));
  PACELINE_RETURN_IF_ERROR(
      config::check_resumed(before, job, {options.resume, whole_set, runs::recorded_dataset_size(paths)}));
  return runs::check_epochs(job, paths, whole_set,
                            options.from < 0 ? std::nullopt : std::optional(Version(options.from)));
}

absl::Status check_in_virtual_time(const config::JobConfig& job) {
  if (job.reject_outliers == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "sync.reject_outliers is for live runs; add --set sync.reject_outliers=0");
}

absl::StatusOr<std::string> with_program(const config::JobConfig& job, const std::string& resolved,
                                         const program::Model& model, const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(options));
  PACELINE_ASSIGN_OR_RETURN(std::string asked,
                            with_asked(resolved, model.sets,
                                       {said.file, config::named(*job.program), options.sets,
                                        !options.resume.empty(), model.where}));
  // Its batch, for one, the program may have said itself.
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig whole, config::parse_job(asked, said.file));
  whole.initial_weights = job.initial_weights;
  if (whole.parallel.of_stages()) PACELINE_RETURN_IF_ERROR(program::check_stages(whole, model));
  PACELINE_RETURN_IF_ERROR(check_fits(whole, {model.layout, model.samples}, options.in_virtual_time));
  PACELINE_RETURN_IF_ERROR(check_names(asked, model));
  // With other processes beside this one, each may see cards of its own.
  if (options.in_virtual_time || options.processes || options.has_variants) return asked;
  return with_card_settings(asked, said.file, model);
}

namespace {

absl::StatusOr<std::string> check_job(TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string resolved, resolved_job(options));
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig job, config::parse_job(resolved, "job.toml"));
  if (!options.resume.empty()) job.initial_weights.clear();  // a checkpoint has later ones
  if (options.in_virtual_time) PACELINE_RETURN_IF_ERROR(check_in_virtual_time(job));
  if (!job.program) {
    PACELINE_ASSIGN_OR_RETURN(const JobSizes sizes, find_sizes(job, resolved, options));
    PACELINE_RETURN_IF_ERROR(check_fits(job, sizes, options.in_virtual_time));
    PACELINE_RETURN_IF_ERROR(check_goes_on(job, options, sizes.samples));
    options.data_note = sizes.note;
    if (!sizes.note.empty() && options.shown != launch::Shown::kNothing)
      launch::print(stderr, sizes.note + "\n");
    return resolved;
  }
  PACELINE_ASSIGN_OR_RETURN(const program::Model model, probe_program(job, options.said));
  options.program = model.text;
  // A checkpoint has all that a run goes on with.
  if (!model.note.empty() && options.resume.empty() && options.shown != launch::Shown::kNothing)
    launch::print(stderr, model.note + "\n");
  const std::string unused = unused_gpu_note(*job.program, model);
  if (!unused.empty() && options.shown != launch::Shown::kNothing) launch::print(stderr, unused + "\n");
  PACELINE_ASSIGN_OR_RETURN(std::string asked, with_program(job, resolved, model, options));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig whole, config::parse_job(asked, job_text(options)->file));
  PACELINE_RETURN_IF_ERROR(check_goes_on(whole, options, model.samples));
  return asked;
}

}  // namespace

absl::Status with_origin(const absl::Status& error, const TrainOptions& options) {
  const absl::StatusOr<JobText> said = job_text(options);
  return said.ok() ? config::with_origin(error, said->text, said->file, options.sets) : error;
}

absl::StatusOr<std::string> checked_job(TrainOptions& options) {
  absl::StatusOr<std::string> checked = check_job(options);
  if (!checked.ok()) return with_origin(checked.status(), options);
  return checked;
}

namespace {

// Whether the settings say who the devices are, or how they make up replicas, and no plan for it.
bool has_other_devices(const std::vector<std::string>& sets) {
  const auto says = [&](const std::string& key) {
    return std::any_of(sets.begin(), sets.end(),
                       [&](const std::string& set) { return set.starts_with(key); });
  };
  return (says("device=") || says("parallel=")) && !says("pipeline=");
}

// The run's last plan does not suit these devices. If the job wants a plan, another one is made.
void drop_plan(std::vector<std::string>& sets) {
  std::erase_if(sets, [](const std::string& set) { return set.starts_with("pipeline="); });
  sets.emplace_back("pipeline=[]");
}

}  // namespace

absl::StatusOr<std::string> resolved_job(const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(options));
  const auto& [text, file] = said;
  std::vector<std::string> sets;
  if (!options.resume.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const config::JobConfig before, config::parse_job(text, file));
    PACELINE_ASSIGN_OR_RETURN(sets, runs::last_plan(before, store::RunPaths{options.resume}));
    if (before.parallel.by_planner() && has_other_devices(options.sets)) drop_plan(sets);
  }
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, file, sets));
  PACELINE_RETURN_IF_ERROR(add_path("model.weights", job.initial_weights, sets));
  if (job.program) {
    PACELINE_RETURN_IF_ERROR(add_program(*job.program, sets));
  } else {
    PACELINE_ASSIGN_OR_RETURN(const std::string source, absolute_source(job.data.source));
    sets.push_back("data.source=" + source);
  }
  PACELINE_RETURN_IF_ERROR(add_path("network.certs", job.reach.certs, sets));
  PACELINE_RETURN_IF_ERROR(add_path("network.token_file", job.reach.token_file, sets));
  return config::resolve_job(text, file, sets);
}

absl::Status check_plan(const std::string& job_text, bool in_virtual_time) {
  return runs::plan_job(job_text, time_of(in_virtual_time), measure_model).status();
}

namespace {

// Whether the coordinator will have its port, which is better known before anything is made.
absl::Status check_port(const config::JobConfig& job, const TrainOptions& options) {
  if (options.in_virtual_time) return absl::OkStatus();
  const std::string own =
      options.processes ? options.processes("", job, !options.resume.empty()).listen : std::string();
  return rpc::listen_for_job(own.empty() ? job.reach.listen : own).status();
}

}  // namespace

namespace {

// Trains in the run's folder. Returns how that ended.
absl::Status train_in_folder(TrainedRun& run, const config::JobConfig& job, const TrainOptions& options,
                             Watchers& watchers) {
  const bool resume = !options.resume.empty();
  if (!options.program.empty())
    PACELINE_RETURN_IF_ERROR(store::atomic_write(store::RunPaths{run.folder}.program(), options.program));
  if (options.names_folder && options.shown != launch::Shown::kNothing)
    launch::print(stderr, fmt::format("run: {}\n", run.folder));
  if (!resume) {
    runs::RunOrigin origin = runs::this_origin(kProgramVersion);
    origin.data_note = options.data_note;
    PACELINE_RETURN_IF_ERROR(runs::write_origin(store::RunPaths{run.folder}, origin));
  }
  PACELINE_RETURN_IF_ERROR(watchers.start(run.folder));
  bool logs_say_more = job.program.has_value();  // the output of a program may always say more
  absl::Status outcome;
  if (resume && runs::is_over(run.folder, job)) {
    launch::print(stderr, "there is nothing left to train\n");
  } else if (options.in_virtual_time) {
    outcome = virtual_time::train_virtually(run.folder, resume, options.shown, run.after);
    run.interrupted = launch::stop_signals() > 0;
  } else {
    outcome = train_live(job, options, logs_say_more, run);
  }
  // A program that goes on after the job may be stopped too, and the job is done all the same.
  run.interrupted = run.interrupted && !runs::is_over(run.folder, job);
  watchers.finish();
  if (outcome.ok() && run.interrupted && !launch::has_trained(run.folder))
    outcome = absl::CancelledError("stopped before it trained");
  if (outcome.ok() && run.by_other && !launch::has_trained(run.folder))
    outcome = with_exit_reason(absl::UnavailableError("stopped before it trained: " + *run.by_other),
                               ExitReason::kInterrupted);
  if (outcome.ok()) return outcome;
  return launch::end_of_failed(outcome, run.folder, resume, options.command, logs_say_more);
}

}  // namespace

absl::StatusOr<TrainedRun> train(const std::string& job_text, const TrainOptions& options) {
  const auto time = time_of(options.in_virtual_time);
  const auto measure = [&](const config::JobConfig& asked) {
    return asked.program ? profile_of_program(asked, options.program) : measure_model(asked);
  };
  PACELINE_ASSIGN_OR_RETURN(const auto planned, runs::plan_job(job_text, time, measure));
  const std::string& job_toml = planned.job_toml;
  PACELINE_RETURN_IF_ERROR(runs::check_length(job_toml));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, "job.toml"));
  if (!planned.line.empty() && options.shown != launch::Shown::kNothing)
    launch::print(stderr, planned.line + "\n");
  PACELINE_ASSIGN_OR_RETURN(Watchers watchers, Watchers::open(job, options.ui));
  PACELINE_RETURN_IF_ERROR(check_port(job, options));
  TrainedRun run;
  std::optional<runs::ChangedJob> changed;
  if (!options.resume.empty()) {
    PACELINE_ASSIGN_OR_RETURN(run.folder, old_folder(options, job_toml, changed));
  } else {
    // The text leaves out the program's settings, so that the run is found again before the program is asked.
    PACELINE_ASSIGN_OR_RETURN(const std::string asked, options.processes ? resolved_job(options) : job_text);
    PACELINE_ASSIGN_OR_RETURN(run.folder, new_folder(job, job_toml, asked));
  }
  const absl::Status outcome = train_in_folder(run, job, options, watchers);
  if (outcome.ok()) return run;
  // If the run goes on elsewhere, it does so with this job.
  if (changed && exit_reason_of(outcome) != ExitReason::kHostGivenUp) {
    const auto taken_back = changed->take_back();
    if (taken_back.value_or(false))
      launch::print(stderr,
                    "nothing was trained with the new settings, so the run keeps those that it had\n");
  }
  return outcome;
}

namespace {

// A person who has moved the program, or changed a setting, may not know that this makes another job.
void tell_of_another_job(const config::JobConfig& job, const std::string& asked) {
  constexpr std::size_t kMostTold = 3;
  const auto other = runs::unfinished_run_of_another_job(job.runs_dir, job.name, asked);
  if (!other || !runs::may_be_taken_up(other->run)) return;
  std::vector<std::string> words;
  std::string sets;
  for (const config::JobDifference& one : other->differences) {
    words.push_back(one.in_words());
    if (one.is_of_host() && one.ours) sets += " --set " + shell_word(one.key + "=" + *one.ours);
  }
  const std::size_t more = words.size() - std::min(words.size(), kMostTold);
  words.resize(words.size() - more);
  launch::print(
      stderr,
      fmt::format("{0} was cut short, but its job is another one ({1}{2}): a new run begins; to go on with "
                  "that one, add --resume {3}{4}\n",
                  other->run.folder, fmt::join(words, "; "),
                  more > 0 ? fmt::format("; and {} more", more) : "", shell_word(other->run.folder), sets));
}

// Looks for an unfinished run before the data are read or the program is asked, because that takes a while
// and is done for the run that is found.
absl::Status take_up_unfinished(TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string asked, resolved_job(options));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(asked, "job.toml"));
  const auto found = runs::unfinished_run(job.runs_dir, asked);
  if (!found) tell_of_another_job(job, asked);
  if (!found || !runs::may_be_taken_up(*found)) return absl::OkStatus();
  const std::string moved =
      found->moved.empty() ? "" : fmt::format(" (now with {})", fmt::join(found->moved, ", "));
  launch::print(stderr, fmt::format("going on with {}, which was cut short{}; --new begins another run\n",
                                    found->folder, moved));
  options.resume = found->folder;
  options.again = true;
  options.job_file.clear();
  options.sets = found->moved;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainedRun> go_on(TrainOptions options) {
  PACELINE_RETURN_IF_ERROR(stay_in_its_world(options));
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, checked_job(options));
  return train(job_toml, options);
}

absl::StatusOr<int> train_command(TrainOptions options) {
  launch::catch_warning_signals();
  PACELINE_RETURN_IF_ERROR(stay_in_its_world(options));
  if (options.take_up) PACELINE_RETURN_IF_ERROR(take_up_unfinished(options));
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, checked_job(options));
  launch::catch_stop_signals();
  const absl::StatusOr<TrainedRun> run = train(job_toml, options);
  if (!run.ok()) return with_origin(run.status(), options);
  return show_trained(*run, options);
}

absl::StatusOr<int> show_trained(const TrainedRun& run, const TrainOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const runs::RunReport report, runs::read_run(run.folder));
  PACELINE_RETURN_IF_ERROR(runs::write_report(run.folder, report));
  if (options.shown == launch::Shown::kJson) {
    launch::print(stdout, report::one_line(report.document.at("summary")) + "\n");
  } else {
    launch::print(stdout, fmt::format("{}{}\nreport: {}/report.html\n", report::replica_table(report.summary),
                                      runs::data_note_line(report.document), run.folder));
    if (options.in_virtual_time)
      launch::print(stdout, fmt::format("trace: {}\n",
                                        report.document.at("summary").at("trace_hash").get<std::string>()));
  }
  PACELINE_RETURN_IF_ERROR(run.after);
  if (!run.interrupted && !run.by_other) return 0;
  const std::string stopped = run.by_other ? "stopped: " + *run.by_other : "stopped";
  launch::print(stderr,
                store::latest_checkpoint(run.folder).ok()
                    ? fmt::format("{}; {}\n", stopped, launch::resume_with(options.command, run.folder))
                    : "stopped before anything was trained; there is nothing to resume\n");
  return run.by_other ? kExitOfOthersStop : launch::exit_of_stop();
}

}  // namespace paceline::cli
