#include "paceline/cli/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

#include "paceline/base/file_limit.h"
#include "paceline/base/status_macros.h"
#include "paceline/cli/certs_command.h"
#include "paceline/cli/compare_command.h"
#include "paceline/cli/data_command.h"
#include "paceline/cli/doctor_command.h"
#include "paceline/cli/export_command.h"
#include "paceline/cli/generate_command.h"
#include "paceline/cli/node_command.h"
#include "paceline/cli/plan_command.h"
#include "paceline/cli/program.h"
#include "paceline/cli/replay_command.h"
#include "paceline/cli/report_command.h"
#include "paceline/cli/role_commands.h"
#include "paceline/cli/run_command.h"
#include "paceline/cli/simulate_command.h"
#include "paceline/cli/sweep_command.h"
#include "paceline/cli/top_command.h"
#include "paceline/cli/torch_program.h"
#include "paceline/cli/train_command.h"
#include "paceline/cli/ui_command.h"
#include "paceline/cli/zipline_command.h"
#include "paceline/compute/evaluator_role.h"
#include "paceline/compute/worker_role.h"

namespace paceline::cli {
namespace {

void add_from(CLI::App& app, std::int64_t& from) {
  app.add_option(
         "--from", from,
         "VERSION of the checkpoint to go on from; the newest whole one without it. Newer ones are set "
         "aside")
      ->check(CLI::NonNegativeNumber)
      ->needs("--resume");
}

void add_train(CLI::App& app, Command& command) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* train = app.add_subcommand("train", "train a job on processes of this machine");
  train->add_option("job", options->job_file, "job.toml; the default job without it");
  train->add_option("--set", options->sets, "KEY=VALUE, laid over the job")->allow_extra_args(false);
  train->add_option("--resume", options->resume, "go on with the run in this folder")->excludes("job");
  add_from(*train, options->from);
  train->add_flag_callback(
      "--json", [options] { options->shown = launch::Shown::kJson; },
      "a JSON object a second instead of a progress line");
  train->add_flag("--virtual", options->in_virtual_time, "real gradients in modelled time, in one process");
  train->add_flag("--ui", options->ui, "watch the run in a browser while it trains; prints the address");
  train->callback([options, &command] { command = [options] { return train_command(*options); }; });
}

void add_compare(CLI::App& app, Command& command) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* compare =
      app.add_subcommand("compare", "train a job under several policies or plans, one after another");
  compare->add_option("job", options->job_file, "job.toml; the default job without it");
  compare->add_option("--policies", options->policies, "for example bsp,asp,ssp:3,dssp:3-15");
  compare->add_option("--parallel", options->parallel, "for example joint,frozen,uneven-data,gpipe,data");
  compare->add_option("--set", options->sets, "KEY=VALUE, laid over the job")->allow_extra_args(false);
  compare
      ->add_option("--seeds", options->seeds,
                   "train each with so many seeds, for means and their spread; 1 without it")
      ->check(CLI::Range(1, 100));
  compare->add_flag("--json", options->json, "JSON objects instead of a progress line and a table");
  compare->add_flag("--virtual", options->in_virtual_time, "real gradients in modelled time, in one process");
  compare->add_flag("--ui", options->ui, "watch the runs in a browser while they train; prints the address");
  compare->callback([options, &command] { command = [options] { return compare_command(*options); }; });
}

void add_certs(CLI::App& app, Command& command) {
  auto request = std::make_shared<security::CertificateRequest>();
  CLI::App* certs = app.add_subcommand("certs", "make an authority and the certificates of a job's roles");
  certs
      ->add_option_function<std::string>(
          "dir", [request](const std::string& dir) { request->dir = dir; }, "the folder of the authority")
      ->required();
  certs->add_option("--job", request->job, "a folder in it of this name; 'job' without it");
  certs
      ->add_option(
          "--days", request->days,
          "that the certificates are good for; 365 without it. A new authority is for ten years, or as long")
      ->check(CLI::Range(1, 36500));
  certs->add_flag("--force", request->force,
                  "replace the authority and the job's certificates if they are there");
  certs->callback([request, &command] { command = [request] { return exit_of(certs_command(*request)); }; });
}

void add_data(CLI::App& app, Command& command) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* data = app.add_subcommand("data", "put a standard data set, or drawn digits, into a folder");
  data->add_option("set", options->set,
                   "mnist, cifar10, cifar100, or digits: drawn here, in files like MNIST's")
      ->required();
  data->add_option("dir", options->directory, "the folder that it goes to")->required();
  data->add_option(
      "--from", options->from,
      "the file as it was published, the folder with the files, or another address; fetched from "
      "where it is published without it");
  data->callback([options, &command] { command = [options] { return exit_of(data_command(*options)); }; });
}

void add_job(CLI::App& role, std::string& job_file) {
  role.add_option("--job", job_file, "this host's job file, which says what program may be started here");
}

void add_worker(CLI::App& app, Command& command) {
  auto peer = std::make_shared<compute::WorkerRoleOptions>();
  CLI::App* worker = app.add_subcommand("worker", "one role: computes gradients");
  add_reach(*worker, peer->reach);
  worker->add_option("--name", peer->name, "its place in the job: w0, w1, …")->required();
  worker->add_option("--address", peer->address, "of this host, for stages of its replica on other hosts");
  add_job(*worker, peer->job_file);
  worker->callback([peer, &command] {
    command = [peer]() -> absl::StatusOr<int> {
      if (peer->job_file.empty()) PACELINE_RETURN_IF_ERROR(need_built_in_models());
      return exit_of(compute::run_worker(*peer));
    };
  });
}

void add_evaluator(CLI::App& app, Command& command) {
  auto reach = std::make_shared<peer::PeerOptions>();
  auto job_file = std::make_shared<std::string>();
  CLI::App* evaluator = app.add_subcommand("evaluator", "one role: measures the weights on the test set");
  add_reach(*evaluator, *reach);
  add_job(*evaluator, *job_file);
  evaluator->callback([reach, job_file, &command] {
    command = [reach, job_file]() -> absl::StatusOr<int> {
      if (job_file->empty()) PACELINE_RETURN_IF_ERROR(need_built_in_models());
      return exit_of(compute::run_evaluator(*reach, *job_file));
    };
  });
}

// `own`: the words after --, which are the program's whatever they are.
void add_run(CLI::App& app, Command& command, const std::vector<std::string>& own) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "train a program of your own on processes of this machine");
  run->add_option("program", options->program, "a Python script, or an executable")->required();
  run->add_option("--devices", options->devices, "how many train; 1 without it")->check(CLI::Range(1, 256));
  run->add_option("--policy", options->policy, "who waits for whom; bsp without it");
  run->add_option("--python", options->python, "the Python that runs the script; python3 without it");
  run->add_option("--set", options->sets, "KEY=VALUE, laid over the job")->allow_extra_args(false);
  run->add_flag_callback(
      "--json", [options] { options->shown = launch::Shown::kJson; },
      "a JSON object a second instead of a progress line");
  run->add_flag("--virtual", options->in_virtual_time, "real gradients in modelled time, in one process");
  run->footer("Every other word is the program's own. Words that both know go to the program after --.");
  run->allow_extras();
  run->callback([options, run, own, &command] {
    options->args = run->remaining();
    options->args.insert(options->args.end(), own.begin(), own.end());
    command = [options] { return run_command(*options); };
  });
}

// An unset variable of a script becomes an empty word, which must not pass for a word that is left out.
void refuse_empty_words(CLI::App& app) {
  const auto empty = [](const std::string& word) {
    return std::string(word.empty() ? "is empty; write what it should be, or leave it out" : "");
  };
  for (CLI::Option* option : app.get_options()) option->check(empty);
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

void add_place(CLI::App& app, PlaceOptions& place) {
  app.add_option("--address", place.address,
                 "of this host, in numbers, for the others; without it, of the interface that reaches the "
                 "first host");
  app.add_option("--rank", place.said.rank, "this host's, from 0; what the environment says without it")
      ->check(CLI::Range(0, 4095));
  app.add_option("--hosts", place.said.hosts, "how many there are; likewise")->check(CLI::Range(1, 4096));
  app.add_option("--coordinator", place.said.coordinator, "HOST:PORT of rank 0; likewise");
}

void add_node(CLI::App& app, Command& command) {
  auto options = std::make_shared<NodeOptions>();
  CLI::App* node =
      app.add_subcommand("node", "this host's part of a job on several hosts: one command a host");
  node->add_option("job", options->train.job_file, "job.toml; the default job without it");
  node->add_option("--set", options->train.sets, "KEY=VALUE, laid over the job")->allow_extra_args(false);
  node->add_option("--resume", options->train.resume, "go on with the run in this folder of the first host")
      ->excludes("job");
  add_from(*node, options->train.from);
  node->add_flag("--new", options->anew,
                 "begin a new run, also where the first host was killed in the middle of one of this job")
      ->excludes("--resume");
  node->add_flag("--ui", options->train.ui,
                 "watch the run in a browser of the host that leads it; prints the address");
  add_place(*node, options->place);
  node->callback(
      [options, &command] { command = [options] { return node_command(*options, environment()); }; });
}

void add_doctor(CLI::App& app, Command& command) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "what of this host, or of all hosts of a job, is not as the job needs it");
  doctor->add_option("job", options->job_file,
                     "job.toml; without it, the host alone, or the default job with --set");
  doctor->add_option("--set", options->sets, "KEY=VALUE, laid over the job")->allow_extra_args(false);
  doctor->add_flag("--json", options->json, "JSON instead of lines");
  add_place(*doctor, options->place);
  doctor->add_option("--wait", options->wait_s, "for the other hosts, in seconds; 60 without it")
      ->check(CLI::Range(1, 86400));
  doctor->callback(
      [options, &command] { command = [options] { return doctor_command(*options, environment()); }; });
}

void add_simulate(CLI::App& app, Command& command) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = app.add_subcommand("simulate", "a cluster in modelled time, under several policies");
  simulate
      ->add_option("file", options->files, "scenario.toml; or cluster.toml, of which several make a table")
      ->required();
  simulate->add_option("--policies", options->policies,
                       "for example bsp,ssp:3,elastic-bsp:15; five of them by default");
  simulate->add_option("--json", options->json_file, "FILE for an object a policy, or - for standard output");
  simulate->callback([options, &command] { command = [options] { return simulate_command(*options); }; });
}

void add_sweep(CLI::App& app, Command& command) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* sweep =
      app.add_subcommand("sweep", "train a job in virtual time under every choice of some axes");
  sweep->add_option("sweep", options->file, "sweep.toml")->required();
  sweep->add_option("--jobs", options->jobs, "so many trainings at a time")->check(CLI::Range(1, 1024));
  CLI::Option* markdown = sweep->add_flag("--markdown", options->markdown, "tables for a Markdown file");
  sweep->add_option("--json", options->json_file, "FILE for an object a training, or - for standard output")
      ->excludes(markdown);
  sweep->callback([options, &command] { command = [options] { return sweep_command(*options); }; });
}

void add_plan(CLI::App& app, Command& command) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand("plan", "which device should compute which layers of how many samples");
  plan->add_option("cluster", options->cluster_file, "cluster.toml")->required();
  plan->add_option("--json", options->json,
                   "a file for a JSON object instead of a picture; -: standard output");
  plan->add_option("--write-profile", options->write_profile, "a file for the layers of the model");
  plan->callback([options, &command] { command = [options] { return exit_of(plan_command(*options)); }; });
}

void add_report(CLI::App& app, Command& command) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand("report", "write report.html of a run or a comparison again");
  report->add_option("folder", options->folder, "the run's, or the comparison's")->required();
  CLI::Option* time = report->add_flag(
      "--time", options->time,
      "print where the time of each device went, and what holds the run back; write nothing");
  report->add_flag("--json", options->json, "that as JSON")->needs(time);
  report->callback(
      [options, &command] { command = [options] { return exit_of(report_command(*options)); }; });
}

void add_export(CLI::App& app, Command& command) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* exported =
      app.add_subcommand("export", "write a run's weights, or what happened in it, for other tools");
  exported->add_option("run", options->run, "the run folder; the run may still train")->required();
  exported->add_option("file", options->file,
                       "the weights as one safetensors file: for example model.safetensors");
  exported->add_option(
      "--trace", options->trace,
      "FILE for who computed and who waited for whom, as Perfetto and chrome://tracing open it");
  exported->add_option("--csv", options->tables, "DIR for the report's numbers as CSV and as JSON lines");
  exported->add_option("--tensorboard", options->tensorboard,
                       "DIR for an event file of TensorBoard, in a folder of the run's name");
  exported->add_flag("--follow", options->follow, "write the event file while the run trains, until its end")
      ->needs("--tensorboard");
  exported->add_option("--prometheus", options->prometheus,
                       "FILE for its metrics in Prometheus' text format; -: standard output");
  exported->callback(
      [options, &command] { command = [options] { return exit_of(export_command(*options)); }; });
}

void add_ui(CLI::App& app, Command& command) {
  auto options = std::make_shared<UiCommandOptions>();
  CLI::App* ui = app.add_subcommand("ui", "watch runs in a browser, while they train or after");
  ui->add_option("runs", options->roots, "run folders, or folders of these; 'runs' without it");
  ui->add_option("--listen", options->listen,
                 "HOST:PORT; without it, 127.0.0.1 at port 7462 or, where that is taken, at any free one");
  ui->add_flag("--metrics-only", options->metrics_only,
               "/metrics and /healthz, without a token, and no pages");
  ui->add_option("--listen-fd", options->listen_fd, "")->group("");
  ui->add_option("--token-fd", options->token_fd, "")->group("");
  ui->callback([options, &command] { command = [options] { return ui_command(*options); }; });
}

void add_top(CLI::App& app, Command& command) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "watch a run in the terminal: who is slow, and who waits");
  top->add_option("run", options->run, "the run folder, or a folder of runs: the newest of them")->required();
  top->add_flag("--once", options->once, "print it once, 80 columns wide, and end");
  top->callback([options, &command] { command = [options] { return top_command(*options); }; });
}

void add_replay(CLI::App& app, Command& command) {
  auto folder = std::make_shared<std::string>();
  CLI::App* replay = app.add_subcommand("replay", "hold a run's recorded orders to what is ordered today");
  replay->add_option("run", *folder, "the run folder")->required();
  replay->callback([folder, &command] { command = [folder] { return exit_of(replay_command(*folder)); }; });
}

void add_zipline(CLI::App& app, Command& command) {
  auto options = std::make_shared<ZiplineOptions>();
  CLI::App* zipline = app.add_subcommand("zipline", "when replicas should meet, from predicted ready times");
  zipline->add_option("file", options->file, "a line NAME:TIME,TIME,… for each replica")->required();
  zipline->add_option(
      "--method", options->method,
      "zip-line, zip-line-scan, zip-line-opt, zip-line-opt-bs, full-grid-scan, full-grid-scan-exact, "
      "grid-scan or naive");
  zipline->add_option("--json", options->json,
                      "a file for a JSON object instead of a table; -: standard output");
  zipline->callback(
      [options, &command] { command = [options] { return exit_of(zipline_command(*options)); }; });
}

// For the build, not for people: hidden.
void add_generate(CLI::App& app, Command& command) {
  auto dir = std::make_shared<std::string>();
  CLI::App* generate = app.add_subcommand("generate", "write the man pages and the completions of shells");
  generate->group("");
  generate->add_option("dir", *dir, "the folder to write them to")->required();
  generate->callback([dir, &app, &command] {
    command = [dir, &app] { return exit_of(generate_command(words_of(app), *dir)); };
  });
}

}  // namespace

int run_paceline(int argc, char** argv) {
  raise_file_limit();
  CLI::App app("Paceline trains one neural network over machines of unequal speed.", "paceline");
  Command command;
  // The parser would take what is behind -- for words of its own.
  char** const end = argv + argc;
  char** const mark =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  const std::vector<std::string> own(mark == end ? end : mark + 1, end);
  add_run(app, command, own);
  add_train(app, command);
  add_compare(app, command);
  add_sweep(app, command);
  add_simulate(app, command);
  add_plan(app, command);
  add_report(app, command);
  add_export(app, command);
  add_ui(app, command);
  add_top(app, command);
  add_replay(app, command);
  add_zipline(app, command);
  add_node(app, command);
  add_certs(app, command);
  add_data(app, command);
  add_doctor(app, command);
  add_generate(app, command);
  for (CLI::App* subcommand : app.get_subcommands({})) refuse_empty_words(*subcommand);
  add_coordinator(app, command);
  add_server(app, command);
  add_worker(app, command);
  add_evaluator(app, command);
  const bool runs = argc > 1 && std::string_view(argv[1]) == "run";
  return run_program(app, command, runs ? static_cast<int>(mark - argv) : argc, argv);
}

}  // namespace paceline::cli
