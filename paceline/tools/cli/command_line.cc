#include "paceline/tools/cli/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <absl/strings/str_join.h>
#include <CLI/CLI.hpp>

#include "paceline/base/file_limit.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/hosts.h"
#include "paceline/processes/compute/evaluator_role.h"
#include "paceline/processes/compute/worker_role.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/tools/cli/certs_command.h"
#include "paceline/tools/cli/compare_command.h"
#include "paceline/tools/cli/data_command.h"
#include "paceline/tools/cli/doctor_command.h"
#include "paceline/tools/cli/examples.h"
#include "paceline/tools/cli/export_command.h"
#include "paceline/tools/cli/generate_command.h"
#include "paceline/tools/cli/models_command.h"
#include "paceline/tools/cli/module_arguments.h"
#include "paceline/tools/cli/node_command.h"
#include "paceline/tools/cli/number_checks.h"
#include "paceline/tools/cli/plan_command.h"
#include "paceline/tools/cli/profile_command.h"
#include "paceline/tools/cli/program.h"
#include "paceline/tools/cli/replay_command.h"
#include "paceline/tools/cli/report_command.h"
#include "paceline/tools/cli/role_commands.h"
#include "paceline/tools/cli/run_command.h"
#include "paceline/tools/cli/said_once.h"
#include "paceline/tools/cli/simulate_command.h"
#include "paceline/tools/cli/sweep_command.h"
#include "paceline/tools/cli/top_command.h"
#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/train_command.h"
#include "paceline/tools/cli/ui_command.h"
#include "paceline/tools/cli/up_command.h"
#include "paceline/tools/cli/zipline_command.h"

namespace paceline::cli {
namespace {

void add_from(CLI::App& app, std::int64_t& from) {
  app.add_option(
         "--from", from,
         "go on from the checkpoint of this VERSION, not from the newest one; newer ones are set aside")
      ->check(whole_from_zero())
      ->needs("--resume");
}

void add_job(CLI::App& app, std::string& job_file) {
  app.add_option("job", job_file, "the job file, or - for standard input; without it, a small default job");
}

void add_sets(CLI::App& app, std::vector<std::string>& sets) {
  app.add_option("--set", sets, "KEY=VALUE: set this key of the job; you may repeat it")
      ->allow_extra_args(false);
}

CLI::Option* add_virtual(CLI::App& app, bool& in_virtual_time) {
  return app.add_flag("--virtual", in_virtual_time,
                      "compute real gradients in modelled time, in one process");
}

// How much a run says while it trains.
void add_shown(CLI::App& app, launch::Shown& shown) {
  CLI::Option* json = app.add_flag_callback(
      "--json", [&shown] { shown = launch::Shown::kJson; },
      "print a JSON object every second instead of a progress line");
  app.add_flag_callback(
         "--quiet", [&shown] { shown = launch::Shown::kNothing; },
         "no progress line: only the result, warnings and errors")
      ->excludes(json);
}

void add_train(CLI::App& app, Command& command) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* train = app.add_subcommand("train", "train a job on this machine");
  add_job(*train, options->job_file);
  auto policy = std::make_shared<std::string>();
  train->add_option("--policy", *policy, "who waits for whom: the same as --set sync.policy=POLICY");
  add_sets(*train, options->sets);
  train->add_option("--resume", options->resume, "go on with the run in this folder")->excludes("job");
  add_from(*train, options->from);
  add_shown(*train, options->shown);
  add_virtual(*train, options->in_virtual_time);
  train->add_flag("--ui", options->ui, "watch the run in a browser while it trains; prints the address");
  train->callback([options, policy, &command] {
    command = [options, policy]() -> absl::StatusOr<int> {
      PACELINE_RETURN_IF_ERROR(check_said_once("--policy", *policy, "sync.policy", options->sets));
      if (!policy->empty()) options->sets.push_back("sync.policy=" + *policy);
      return train_command(*options);
    };
  });
}

void add_compare(CLI::App& app, Command& command) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* compare =
      app.add_subcommand("compare", "train a job under several policies or plans, and compare the results");
  add_job(*compare, options->job_file);
  compare->add_option("--policies", options->policies, "the policies: for example bsp,asp,ssp:3,dssp:3-15");
  compare->add_option("--parallel", options->parallel,
                      "the plans: for example joint,frozen,uneven-data,gpipe,data");
  add_sets(*compare, options->sets);
  compare
      ->add_option("--seeds", options->seeds,
                   "train each policy with N seeds, for means and standard errors; 1 without it")
      ->check(CLI::Range(1, 100));
  compare->add_option("--resume", options->resume, "go on with the comparison in this folder")
      ->excludes("job")
      ->excludes("--policies")
      ->excludes("--parallel")
      ->excludes("--set")
      ->excludes("--seeds");
  add_shown(*compare, options->shown);
  add_virtual(*compare, options->in_virtual_time)->excludes("--resume");
  compare->add_flag("--ui", options->ui, "watch the runs in a browser while they train; prints the address");
  compare->callback([options, &command] { command = [options] { return compare_command(*options); }; });
}

void add_certs(CLI::App& app, Command& command) {
  auto request = std::make_shared<security::CertificateRequest>();
  CLI::App* certs =
      app.add_subcommand("certs", "make the certificates of a job, and the authority that signs them");
  certs
      ->add_option_function<std::string>(
          "dir", [request](const std::string& dir) { request->dir = dir; },
          "the folder for the authority and its certificates")
      ->required();
  certs->add_option("--job", request->job,
                    "the name of the job, and of the folder for its certificates; 'job' without it");
  certs
      ->add_option(
          "--days", request->days,
          "how many days the certificates are valid; 365 without it. A new authority is valid for ten years, "
          "or as long as they are")
      ->check(CLI::Range(1, 36500));
  certs->add_flag("--force", request->force,
                  "replace the authority and the job's certificates if they exist");
  certs->callback([request, &command] { command = [request] { return exit_of(certs_command(*request)); }; });
}

void add_data(CLI::App& app, Command& command) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* data = app.add_subcommand("data", "put a standard data set, or drawn digits, into a folder");
  data->add_option("set", options->set,
                   "mnist, cifar10, cifar100, or digits: drawn here, in files like MNIST's")
      ->type_name(absl::StrJoin(data_sets(), "|"))
      ->required();
  data->add_option("dir", options->directory, "the folder to put it into")->required();
  data->add_option("--from", options->from,
                   "the published file, a folder with the files, or another address; without it, paceline "
                   "fetches them from where they are published");
  data->callback([options, &command] { command = [options] { return exit_of(data_command(*options)); }; });
}

void add_own_job(CLI::App& role, std::string& job_file) {
  role.add_option("--job", job_file, "this host's job file, which says what may be started and read here");
}

// A process without a job file computes a built-in model.
absl::Status need_models_of(const std::string& job_file) {
  if (job_file.empty()) return need_built_in_models();
  PACELINE_ASSIGN_OR_RETURN(const std::string text, runs::read_job_file(job_file));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(text, job_file));
  return job.program ? absl::OkStatus() : need_built_in_models();
}

void add_worker(CLI::App& app, Command& command) {
  auto peer = std::make_shared<compute::WorkerRoleOptions>();
  CLI::App* worker = app.add_subcommand("worker", "one process of a job: computes gradients");
  add_reach(*worker, peer->reach);
  worker->add_option("--name", peer->name, "name of the worker's device in the job: w0, w1, …")->required();
  worker->add_option("--address", peer->address,
                     "address of this host, for stages of its replica on other hosts");
  add_own_job(*worker, peer->job_file);
  worker->callback([peer, &command] {
    command = [peer]() -> absl::StatusOr<int> {
      PACELINE_RETURN_IF_ERROR(need_models_of(peer->job_file));
      return exit_of(compute::run_worker(*peer));
    };
  });
}

void add_evaluator(CLI::App& app, Command& command) {
  auto reach = std::make_shared<peer::PeerOptions>();
  auto job_file = std::make_shared<std::string>();
  CLI::App* evaluator =
      app.add_subcommand("evaluator", "one process of a job: measures the weights on the test set");
  add_reach(*evaluator, *reach);
  add_own_job(*evaluator, *job_file);
  evaluator->callback([reach, job_file, &command] {
    command = [reach, job_file]() -> absl::StatusOr<int> {
      PACELINE_RETURN_IF_ERROR(need_models_of(*job_file));
      return exit_of(compute::run_evaluator(*reach, *job_file));
    };
  });
}

launch::Environment environment() {
  launch::Environment all;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

// True if the parser took the module's first free word for the program: "-m MODULE --rate 0.1".
bool module_comes_first(const CLI::App& app, const CLI::Option* module, const CLI::Option* program) {
  const std::vector<CLI::Option*>& order = app.parse_order();
  return std::find(order.begin(), order.end(), module) < std::find(order.begin(), order.end(), program) &&
         !program->empty();
}

void add_run(CLI::App& app, Command& command, const CommandWords& words) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "train a program of your own on this machine");
  CLI::Option* program =
      run->add_option("program", options->program, "a Python script, or an executable; needed without -m");
  CLI::Option* module =
      run->add_option("-m", options->module, "a Python module, as with python -m, instead of the program");
  CLI::Option* devices = run->add_option("--devices", options->devices, "number of devices; 1 without it")
                             ->check(CLI::Range(1, 256));
  CLI::Option* policy = run->add_option("--policy", options->policy,
                                        "the policy, which decides who waits for whom; bsp without it");
  run->add_option("--python", options->python, "the Python that runs the script; python3 without it");
  add_sets(*run, options->sets);
  add_shown(*run, options->shown);
  add_virtual(*run, options->in_virtual_time);
  run->footer("All other words go to your program. If paceline knows a word too, write it after --.");
  run->allow_extras();
  run->callback([options, run, program, module, devices, policy, words, &command] {
    if (program->empty() && module->empty()) throw CLI::RequiredError("program");
    options->args = run->remaining();
    if (module_comes_first(*run, module, program)) {
      options->args = module_arguments(words.before, options->args, std::exchange(options->program, ""));
    } else if (!program->empty() && !module->empty()) {  // -m is an option of the program
      options->args.insert(options->args.begin(), {"-m", std::exchange(options->module, "")});
    }
    options->args.insert(options->args.end(), words.own.begin(), words.own.end());
    const std::string said_devices = devices->empty() ? "" : devices->as<std::string>();
    const std::string said_policy = policy->empty() ? "" : options->policy;
    options->says_devices = !devices->empty();
    command = [options, said_devices, said_policy]() -> absl::StatusOr<int> {
      PACELINE_RETURN_IF_ERROR(check_said_once("--devices", said_devices, "device", options->sets));
      PACELINE_RETURN_IF_ERROR(check_said_once("--policy", said_policy, "sync.policy", options->sets));
      PACELINE_RETURN_IF_ERROR(check_said_once("--python", options->python, "program.python", options->sets));
      return run_command(*options, environment());
    };
  });
}

// An unset variable of a script becomes an empty word, which must not pass for a word that is left out.
void refuse_empty_words(CLI::App& app) {
  const auto empty = [](const std::string& word) {
    return std::string(word.empty() ? "is empty; write a value, or leave it out" : "");
  };
  for (CLI::Option* option : app.get_options()) option->check(empty);
}

void add_place(CLI::App& app, PlaceOptions& place) {
  app.add_option("--address", place.address,
                 "numeric address where the other hosts reach this one; without it, the address of the "
                 "interface that reaches the first host");
  app.add_option("--rank", place.said.rank,
                 "number of this host, from 0; without it, the environment says it")
      ->check(CLI::Range(std::int64_t{0}, config::kMostHosts - 1));
  app.add_option("--hosts", place.said.hosts, "number of hosts; without it, the environment says it")
      ->check(CLI::Range(std::int64_t{1}, config::kMostHosts));
  app.add_option("--coordinator", place.said.coordinator,
                 "HOST:PORT of rank 0; without it, the environment says it");
}

void add_node(CLI::App& app, Command& command) {
  auto options = std::make_shared<NodeOptions>();
  CLI::App* node =
      app.add_subcommand("node", "run this host's part of a job on several hosts: one command on each host");
  add_job(*node, options->train.job_file);
  add_sets(*node, options->train.sets);
  node->add_option("--resume", options->train.resume, "go on with the run in this folder of the first host")
      ->excludes("job");
  add_from(*node, options->train.from);
  node->add_flag("--again", options->train.again,
                 "with --resume: the run was cut short, and goes on without hosts that stay away")
      ->needs("--resume")
      ->excludes("--from");
  node->add_flag("--new", options->anew, "start a new run, even if an earlier run of this job was cut short")
      ->excludes("--resume");
  node->add_flag("--ui", options->train.ui,
                 "watch the run in a browser on the host that leads it; prints the address");
  add_place(*node, options->place);
  node->callback(
      [options, &command] { command = [options] { return node_command(*options, environment()); }; });
}

void add_up(CLI::App& app, Command& command) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* up = app.add_subcommand("up", "run a job on several hosts over ssh, with one command");
  up->add_option("hosts", options->hosts_file,
                 "a file with one host name on each line, as for ssh; host 0 first")
      ->required();
  up->add_option("job", options->job_file, "the job file, or - for standard input")->required();
  add_sets(*up, options->sets);
  up->add_option(
      "--directory", options->directory,
      "folder on each host for the job and its runs; without it, paceline/NAME in the home folder");
  up->add_option("--program", options->program, "the program on each host; 'paceline' without it");
  up->add_flag("--copy-programs", options->copy_programs, "copy the programs of this host to the others too")
      ->excludes("--program");
  up->add_option("--resume", options->resume, "go on with the run in this folder of host 0");
  up->add_flag_callback(
      "--no-doctor", [options] { options->doctor = false; }, "do not examine the hosts before the run");
  up->callback([options, &command] { command = [options] { return up_command(*options); }; });
}

void add_doctor(CLI::App& app, Command& command) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor", "check this host, or all hosts of a job, and say how to fix what is wrong");
  doctor->add_option("job", options->job_file,
                     "the job file, or - for standard input; without it, only this host is checked, or with "
                     "--set the default job");
  add_sets(*doctor, options->sets);
  doctor->add_flag("--json", options->json, "print JSON instead of lines");
  add_place(*doctor, options->place);
  doctor->add_option("--wait", options->wait_s, "how many seconds to wait for the other hosts; 60 without it")
      ->check(CLI::Range(1, 86400));
  doctor->callback(
      [options, &command] { command = [options] { return doctor_command(*options, environment()); }; });
}

void add_simulate(CLI::App& app, Command& command) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate =
      app.add_subcommand("simulate", "simulate a cluster in modelled time, under several policies");
  simulate
      ->add_option(
          "file", options->files,
          "a scenario file, or - for standard input; or one or more cluster files, which make one table")
      ->required();
  simulate->add_option("--policies", options->policies,
                       "the policies: for example bsp,ssp:3,elastic-bsp:15; five of them without it");
  simulate
      ->add_option("--seeds", options->seeds,
                   "simulate each policy with N seeds, for means and standard errors; 1 without it")
      ->check(CLI::Range(1, 1000));
  simulate->add_option("--json", options->json_file,
                       "write a JSON object for each policy to FILE, or to standard output with -");
  simulate->add_option("--html", options->html_file, "write a page with the course of each policy to FILE");
  simulate->callback([options, &command] { command = [options] { return simulate_command(*options); }; });
}

void add_sweep(CLI::App& app, Command& command) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* sweep =
      app.add_subcommand("sweep", "train a job in virtual time with every combination of some settings");
  sweep->add_option("sweep", options->file, "the sweep file, or - for standard input")->required();
  sweep->add_option("--jobs", options->jobs, "how many trainings run at a time")->check(CLI::Range(1, 1024));
  CLI::Option* markdown = sweep->add_flag("--markdown", options->markdown, "print the tables as Markdown");
  sweep->add_flag("--quiet", options->quiet, "no progress line: only the result, warnings and errors");
  sweep
      ->add_option("--json", options->json_file,
                   "write a JSON object for each training to FILE, or to standard output with -")
      ->excludes(markdown);
  sweep->add_option("--html", options->html_file, "write the tables as a page to FILE");
  sweep->callback([options, &command] { command = [options] { return sweep_command(*options); }; });
}

// The options of a program that is measured.
void add_measured(CLI::App& app, ProfileOptions& options) {
  app.add_option("--python", options.program.python, "the Python that runs the script; python3 without it");
  app.add_option(
         "--micro-batch", options.micro_batch,
         "the largest micro-batch to measure, in samples; 32 without it. A half, a quarter and so on are "
         "measured too")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--threads", options.threads, "PyTorch's threads; 1 without it, as a worker has them")
      ->check(CLI::Range(1, 1024));
}

void add_profile(CLI::App& app, Command& command, const CommandWords& words) {
  auto options = std::make_shared<ProfileOptions>();
  RunOptions& program = options->program;
  CLI::App* profile =
      app.add_subcommand("profile", "measure the parts of your program's model on this machine");
  CLI::Option* script = profile->add_option("program", program.program,
                                            "a Python script that calls paceline.run(); needed without -m");
  CLI::Option* module = profile->add_option("-m", program.module, "a Python module, instead of the program");
  add_measured(*profile, *options);
  profile
      ->add_option(
          "--processes", options->processes,
          "how many processes compute the model at the same time, as devices of one host do; 1 without it")
      ->check(CLI::Range(1, 128));
  profile->add_option("-o,--output", options->output,
                      "write the parts to FILE as layers, for paceline plan --profile FILE; or to standard "
                      "output with -, instead of the table");
  profile->footer("All other words go to your program. If paceline knows a word too, write it after --.");
  profile->allow_extras();
  profile->callback([options, profile, script, module, words, &command] {
    if (script->empty() && module->empty()) throw CLI::RequiredError("program");
    RunOptions& run = options->program;
    run.args = profile->remaining();
    if (module_comes_first(*profile, module, script)) {
      run.args = module_arguments(words.before, run.args, std::exchange(run.program, ""));
    } else if (!script->empty() && !module->empty()) {
      throw CLI::ExcludesError("program", "-m");
    }
    run.args.insert(run.args.end(), words.own.begin(), words.own.end());
    command = [options] { return exit_of(profile_command(*options)); };
  });
}

void add_plan(CLI::App& app, Command& command, const CommandWords& words) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan =
      app.add_subcommand("plan", "plan which device computes which layers, and for how many samples");
  plan->add_option(
      "file", options->file,
      "the cluster file, or - for standard input; with --cluster, a Python script whose model is "
      "measured here first");
  plan->add_option("--cluster", options->cluster_file, "the cluster file, which names no model");
  plan->add_option("--profile", options->profile,
                   "a file with the model's layers, from paceline profile; the cluster file names no model");
  add_measured(*plan, options->measured);
  plan->add_option("--json", options->json,
                   "write a JSON object to FILE, or to standard output with -, instead of the picture");
  plan->add_option("--write-profile", options->write_profile,
                   "write what each layer of the model takes to FILE");
  plan->footer("The words after -- go to the program.");
  plan->callback([options, own = words.own, &command] {
    options->measured.program.args = own;
    command = [options] { return exit_of(plan_command(*options)); };
  });
}

void add_report(CLI::App& app, Command& command) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand("report", "write the report of a run or a comparison again");
  report->add_option("folder", options->folder, "the folder of the run or of the comparison")->required();
  CLI::Option* time = report->add_flag(
      "--time", options->time,
      "print where the time of each device went, and what holds the run back; write nothing");
  report->add_flag("--json", options->json, "print this as JSON")->needs(time);
  report->callback(
      [options, &command] { command = [options] { return exit_of(report_command(*options)); }; });
}

void add_export(CLI::App& app, Command& command) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* exported =
      app.add_subcommand("export", "write the weights or the history of a run for other tools");
  exported->add_option("run", options->run, "the run folder; the run may still train")->required();
  exported->add_option("file", options->file,
                       "write the weights to this safetensors file: for example model.safetensors");
  exported->add_flag(
      "--trainable", options->trainable,
      "write only what was trained; of a PEFT model, the adapter in the names that PEFT reads");
  exported->add_option(
      "--trace", options->trace,
      "write a trace to FILE, for Perfetto and chrome://tracing: who computed, and who waited for whom");
  exported->add_option("--csv", options->tables,
                       "write the numbers of the report to DIR, as CSV and as JSON lines");
  exported->add_option("--tensorboard", options->tensorboard,
                       "write an event file for TensorBoard to DIR, in a folder with the run's name");
  exported->add_flag("--follow", options->follow, "write the event file while the run trains, until its end")
      ->needs("--tensorboard");
  exported->add_option("--prometheus", options->prometheus,
                       "write metrics in Prometheus' text format to FILE, or to standard output with -");
  exported->callback(
      [options, &command] { command = [options] { return exit_of(export_command(*options)); }; });
}

void add_ui(CLI::App& app, Command& command) {
  auto options = std::make_shared<UiCommandOptions>();
  CLI::App* ui = app.add_subcommand("ui", "watch runs in a browser, while they train or after");
  ui->add_option("runs", options->roots, "folders of runs, or folders that hold them; 'runs' without it");
  ui->add_option(
      "--listen", options->listen,
      "HOST:PORT to listen at; without it, 127.0.0.1:7462, or a free port where that one is taken");
  ui->add_flag("--metrics-only", options->metrics_only, "serve /metrics and /healthz alone, without a token");
  ui->add_option("--listen-fd", options->listen_fd, "")->group("");
  ui->add_option("--token-fd", options->token_fd, "")->group("");
  ui->callback([options, &command] { command = [options] { return ui_command(*options); }; });
}

void add_top(CLI::App& app, Command& command) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "watch a run in the terminal: who is slow, and who waits");
  top->add_option("run", options->run, "the folder of the run; or a folder of runs, for the newest of them")
      ->required();
  top->add_flag("--once", options->once, "print it once, 80 columns wide, and exit");
  top->callback([options, &command] { command = [options] { return top_command(*options); }; });
}

void add_replay(CLI::App& app, Command& command) {
  auto folder = std::make_shared<std::string>();
  CLI::App* replay =
      app.add_subcommand("replay", "check that this version gives the same orders as the record of a run");
  replay->add_option("run", *folder, "the run folder")->required();
  replay->callback([folder, &command] { command = [folder] { return exit_of(replay_command(*folder)); }; });
}

void add_zipline(CLI::App& app, Command& command) {
  auto options = std::make_shared<ZiplineOptions>();
  CLI::App* zipline =
      app.add_subcommand("zipline", "find when replicas should meet, from predicted ready times");
  zipline
      ->add_option("file", options->file,
                   "a file with one line NAME:TIME,TIME,… for each replica, or - for standard input")
      ->required();
  zipline->add_option("--method", options->method,
                      "the search: zip-line, zip-line-scan, zip-line-opt, zip-line-opt-bs, full-grid-scan, "
                      "full-grid-scan-exact, "
                      "grid-scan or naive");
  zipline->add_option("--json", options->json,
                      "write a JSON object to FILE, or to standard output with -, instead of the table");
  zipline->callback(
      [options, &command] { command = [options] { return exit_of(zipline_command(*options)); }; });
}

// A command for the build, not for people: hidden.
void add_generate(CLI::App& app, Command& command) {
  auto dir = std::make_shared<std::string>();
  CLI::App* generate = app.add_subcommand("generate", "write the man pages and the completions of shells");
  generate->group("");
  generate->add_option("dir", *dir, "the folder to write them to")->required();
  generate->callback([dir, &app, &command] {
    command = [dir, &app] { return exit_of(generate_command(words_of(app), *dir)); };
  });
}

// A command for `paceline` alone: hidden.
void add_models(CLI::App& app, Command& command) {
  auto options = std::make_shared<ModelsOptions>();
  CLI::App* models = app.add_subcommand("models", "answer a question about the built-in models");
  models->group("");
  models->add_option("question", options->question, "sizes, or host")->required();
  models->add_option("job", options->job_file, "the job file")->required();
  models->add_option("answer", options->answer_file, "the file for the answer")->required();
  models->callback(
      [options, &command] { command = [options] { return exit_of(models_command(*options)); }; });
}

}  // namespace

void add_commands(CLI::App& app, Command& command, const CommandWords& words) {
  add_run(app, command, words);
  add_train(app, command);
  add_compare(app, command);
  add_sweep(app, command);
  add_simulate(app, command);
  add_profile(app, command, words);
  add_plan(app, command, words);
  add_report(app, command);
  add_export(app, command);
  add_ui(app, command);
  add_top(app, command);
  add_replay(app, command);
  add_zipline(app, command);
  add_node(app, command);
  add_up(app, command);
  add_certs(app, command);
  add_data(app, command);
  add_doctor(app, command);
  add_generate(app, command);
  add_models(app, command);
  add_coordinator(app, command);
  add_server(app, command);
  add_worker(app, command);
  add_evaluator(app, command);
  for (CLI::App* subcommand : app.get_subcommands({})) {
    refuse_empty_words(*subcommand);
    add_examples(*subcommand);
  }
}

int run_paceline(int argc, char** argv) {
  raise_file_limit();
  CLI::App app("Paceline trains one neural network over machines of unequal speed.", "paceline");
  Command command;
  // The parser would take what is behind -- for words of its own.
  char** const end = argv + argc;
  char** const mark =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  const CommandWords words{{argv, mark}, {mark == end ? end : mark + 1, end}};
  add_commands(app, command, words);
  const std::string_view called = argc > 1 ? argv[1] : "";
  const bool runs = called == "run" || called == "profile" || called == "plan";
  return run_program(app, command, runs ? static_cast<int>(mark - argv) : argc, argv);
}

}  // namespace paceline::cli
