#include "paceline/tools/cli/up_command.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include <absl/cleanup/cleanup.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/program_version.h"
#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"
#include "paceline/processes/launch/failed_run.h"
#include "paceline/processes/launch/placement.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/host_place.h"
#include "paceline/tools/cli/remote_command.h"
#include "paceline/tools/cli/train_command.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kUpLook{50};
constexpr std::chrono::seconds kAfterFailure{10};
constexpr int kSshFailed = 255;  // the status of ssh itself, not of the command that it ran

// The program on a host to which --copy-programs copied it.
constexpr char kCopied[] = "./paceline";

struct Fleet {
  std::vector<std::string> hosts;
  std::string directory;
  std::string program;
  std::string port;
  std::vector<std::string> sets;
  std::string resume;  // a folder on the first host, which tells the others
};

std::string first_address_of(const Fleet& fleet) {
  const std::string& first = fleet.hosts.front();
  return first.substr(first.find('@') + 1) + ":" + fleet.port;
}

// `paceline WHAT`, with `job` or what stands for it, as the host of this rank has to run it.
std::string on_host(const Fleet& fleet, const std::string& what, std::size_t rank,
                    const std::vector<std::string>& job = {"job.toml"}) {
  std::vector<std::string> words = {fleet.program, what};
  words.insert(words.end(), job.begin(), job.end());
  words.insert(words.end(), {"--rank", std::to_string(rank), "--hosts", std::to_string(fleet.hosts.size()),
                             "--coordinator", first_address_of(fleet)});
  for (const std::string& set : fleet.sets) words.insert(words.end(), {"--set", set});
  for (std::string& word : words) word = shell_word(word);
  return absl::StrJoin(words, " ");
}

std::string in_directory(const Fleet& fleet, const std::string& command) {
  const std::string directory = shell_word(fleet.directory);
  return fmt::format("mkdir -p {} && cd {} && {{ {}; }}", directory, directory, command);
}

std::string last_line(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(text, absl::ByAnyChar("\n\r"), absl::SkipWhitespace());
  return lines.empty() ? "" : lines.back();
}

absl::Status failed_on(const RemoteCommand& one, int status, const std::string& doing) {
  const std::string said = last_line(one.errors.empty() ? one.output : one.errors);
  return absl::UnavailableError(fmt::format("{}: {} {}: {}", one.host(), doing,
                                            status == kSshFailed ? "is not possible over ssh" : "failed",
                                            said.empty() ? fmt::format("exit status {}", status) : said));
}

// Runs something on all hosts at once, and waits for its end everywhere.
class Everywhere {
 public:
  absl::Status start(const std::string& host, const std::string& command, const std::string& input = "") {
    PACELINE_ASSIGN_OR_RETURN(RemoteCommand one, RemoteCommand::start(host, command, input));
    running_.push_back(std::move(one));
    statuses_.emplace_back();
    return absl::OkStatus();
  }
  // Whether all have ended. `each`: is called with each.
  template <typename Each>
  bool look(Each&& each) {
    bool ended = true;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const bool before = statuses_[i].has_value();
      statuses_[i] = running_[i].look();
      each(running_[i], i);
      if (!before && statuses_[i].value_or(0) != 0) failed_.push_back(i);
      ended = ended && statuses_[i].has_value();
    }
    return ended;
  }
  // Once one has failed the others get a little longer. Errors: Cancelled on Ctrl-C.
  absl::Status wait() {
    std::optional<std::chrono::steady_clock::time_point> until;
    while (!look([](const RemoteCommand&, std::size_t) {})) {
      if (launch::stop_signals() > 0) return absl::CancelledError("stopped before the run began");
      const auto now = std::chrono::steady_clock::now();
      if (!failed_.empty() && !until) until = now + kAfterFailure;
      if (until && now > *until) break;
      std::this_thread::sleep_for(kUpLook);
    }
    return absl::OkStatus();
  }
  // The first that failed, in time. The others' reasons are printed, but for the first `told` of all.
  absl::Status all_well(const std::string& doing, std::size_t told = 0) const {
    if (failed_.empty()) return absl::OkStatus();
    for (std::size_t n = std::max<std::size_t>(1, told); n < failed_.size(); ++n)
      launch::print(stderr, fmt::format("{}\n", why_failed(failed_[n], doing)));
    return absl::UnavailableError(why_failed(failed_.front(), doing));
  }
  // The failed hosts, in the order in which they failed.
  const std::vector<std::size_t>& failed() const { return failed_; }
  std::string why_failed(std::size_t i, const std::string& doing) const {
    return std::string(failed_on(running_[i], statuses_[i].value_or(-1), doing).message());
  }
  void close_inputs() {
    for (RemoteCommand& one : running_) one.close_input();
  }
  const std::vector<RemoteCommand>& all() const { return running_; }
  int status(std::size_t i) const { return statuses_[i].value_or(-1); }

 private:
  std::vector<RemoteCommand> running_;
  std::vector<std::optional<int>> statuses_;
  std::vector<std::size_t> failed_;
};

absl::Status check_versions(const Fleet& fleet) {
  Everywhere asked;
  for (const std::string& host : fleet.hosts)
    PACELINE_RETURN_IF_ERROR(
        asked.start(host, in_directory(fleet, shell_word(fleet.program) + " --version")));
  PACELINE_RETURN_IF_ERROR(asked.wait());
  for (std::size_t i = 0; i < fleet.hosts.size(); ++i) {
    const RemoteCommand& one = asked.all()[i];
    if (asked.status(i) == kSshFailed) return failed_on(one, kSshFailed, "paceline --version");
    if (asked.status(i) != 0 && fleet.program == kCopied) {
      return absl::NotFoundError(fmt::format(
          "{}: the paceline that was copied there does not run; install Paceline there, and leave "
          "--copy-programs out: {}",
          one.host(), last_line(one.errors)));
    }
    if (asked.status(i) != 0) {
      return absl::NotFoundError(
          fmt::format("{}: there is no {} that runs; install Paceline there, write --program PATH, or "
                      "--copy-programs: {}",
                      one.host(), fleet.program, last_line(one.errors)));
    }
    const std::string here = fmt::format("paceline {}", kProgramVersion), there = last_line(one.output);
    if (here != there) {
      return absl::FailedPreconditionError(
          fmt::format("{} has {}, and this host {}; install the same there, or write --copy-programs",
                      one.host(), there, here));
    }
  }
  return absl::OkStatus();
}

// A tar archive of files under names of their own: a staging folder of links, which tar follows.
class Bundle {
 public:
  static absl::StatusOr<Bundle> make() {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    if (error)
      return absl::NotFoundError(
          "TMPDIR names a folder that does not exist; name another one, or leave it out");
    std::string folder = (temporary / "paceline-up-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
      return absl::PermissionDeniedError(fmt::format("{}: cannot be made", folder));
    Bundle bundle(folder);
    fs::create_directory(bundle.folder_ / "files");
    return bundle;
  }
  Bundle(Bundle&& other) noexcept : folder_(std::exchange(other.folder_, fs::path())) {}
  Bundle& operator=(Bundle&&) = delete;
  ~Bundle() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  absl::Status add(const fs::path& file, const std::string& name) {
    std::error_code error;
    fs::create_symlink(fs::absolute(file, error), folder_ / "files" / name, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("{}: {}", file.string(), error.message()));
  }
  absl::Status add_text(const std::string& text, const std::string& name) {
    return store::atomic_write(folder_ / "files" / name, text);
  }
  absl::StatusOr<std::string> archive() const {
    const std::string file = (folder_ / "bundle.tar").string();
    const std::string command =
        fmt::format("tar -chf {} -C {} .", shell_word(file), shell_word((folder_ / "files").string()));
    if (std::system(command.c_str()) != 0)
      return absl::UnavailableError("tar failed: the files for the hosts cannot be packed");
    return file;
  }

 private:
  explicit Bundle(fs::path folder) : folder_(std::move(folder)) {}

  fs::path folder_;
};

absl::Status add_programs(Bundle& bundle) {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  // Its libraries lie beside the package, where a copy does not find them.
  if (fs::exists(self.parent_path() / "../../paceline.libs", ignored)) {
    return absl::InvalidArgumentError(
        "--copy-programs: this paceline is part of a Python package; install the wheel on each host, and say "
        "--program PATH where its paceline is not in PATH");
  }
  for (const char* name : {"paceline", "paceline-torch"}) {
    const fs::path program = self.parent_path() / name;
    if (fs::exists(program, ignored)) PACELINE_RETURN_IF_ERROR(bundle.add(program, name));
  }
  return absl::OkStatus();
}

// Whether a token goes to the hosts without certificates.
bool token_alone(const config::JobConfig& job) {
  return job.reach.certs.empty() && !job.reach.token_file.empty();
}

absl::Status copy_files(const Fleet& fleet, const std::string& job_text, const config::JobConfig& job,
                        bool programs) {
  PACELINE_ASSIGN_OR_RETURN(Bundle bundle, Bundle::make());
  PACELINE_RETURN_IF_ERROR(bundle.add_text(job_text, "job.toml"));
  if (!job.reach.certs.empty()) PACELINE_RETURN_IF_ERROR(bundle.add(job.reach.certs, "certs"));
  if (token_alone(job)) PACELINE_RETURN_IF_ERROR(bundle.add(job.reach.token_file, "token"));
  if (programs) PACELINE_RETURN_IF_ERROR(add_programs(bundle));
  PACELINE_ASSIGN_OR_RETURN(const std::string archive, bundle.archive());
  Everywhere copies;
  for (const std::string& host : fleet.hosts)
    PACELINE_RETURN_IF_ERROR(copies.start(host, in_directory(fleet, "tar -xf -"), archive));
  PACELINE_RETURN_IF_ERROR(copies.wait());
  return copies.all_well("copying the job");
}

absl::Status examine(const Fleet& fleet) {
  Everywhere doctors;
  for (std::size_t rank = 0; rank < fleet.hosts.size(); ++rank)
    PACELINE_RETURN_IF_ERROR(
        doctors.start(fleet.hosts[rank], in_directory(fleet, on_host(fleet, "doctor", rank))));
  PACELINE_RETURN_IF_ERROR(doctors.wait());
  const absl::Status well = doctors.all_well("paceline doctor");
  if (!well.ok()) launch::print(stderr, doctors.all().front().output);
  return well;
}

// The node gets SIGHUP, which stops the run cleanly and for good, when the input ends: on Ctrl-C here, or
// with the connection.
std::string node_until_input_ends(const Fleet& fleet, std::size_t rank) {
  std::vector<std::string> job = {"job.toml"};
  if (rank == 0 && !fleet.resume.empty()) job = {"--resume", fleet.resume};
  return in_directory(fleet, fmt::format("exec 3<&0; {}=1 {} </dev/null & node=$!; "
                                         "(cat <&3 >/dev/null; kill -HUP $node) >/dev/null 2>&1 & "
                                         "wait $node; status=$?; kill $! 2>/dev/null; exit $status",
                                         launch::kMarksProgress, on_host(fleet, "node", rank, job)));
}

// Shows the first host's lines. On a terminal a line of progress is shown in place.
class Progress {
 public:
  ~Progress() { clear(); }

  void show(std::string& errors) {
    for (std::size_t end = 0; (end = errors.find('\n')) != std::string::npos; errors.erase(0, end + 1)) {
      const bool progress = errors.front() == '\r';
      const std::string line = errors.substr(progress ? 1 : 0, end - (progress ? 1 : 0));
      const bool in_place = progress && terminal_;
      launch::print(stderr, (shown_ ? "\r\033[K" : "") + line + (in_place ? "" : "\n"));
      shown_ = in_place;
    }
  }
  void clear() {
    if (std::exchange(shown_, false)) launch::print(stderr, "\n");
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

constexpr char kNode[] = "paceline node";

// Tells how to go on, if the first host has said so there.
void tell_how_to_go_on(const std::string& said) {
  const std::string there = launch::resume_with(kNode);
  const std::size_t at = said.rfind(there);
  if (at == std::string::npos) return;
  const std::size_t begin = at + there.size();
  launch::print(stderr, fmt::format("to go on from here, write this command again with --resume {}\n",
                                    said.substr(begin, said.find('\n', begin) - begin)));
}

// True if the last line of the first host says that it starts.
bool starts(const std::string& said) { return absl::StrContains(last_line(said), "starting: "); }

absl::StatusOr<int> run_nodes(const Fleet& fleet) {
  Everywhere nodes;
  for (std::size_t rank = 0; rank < fleet.hosts.size(); ++rank)
    PACELINE_RETURN_IF_ERROR(nodes.start(fleet.hosts[rank], node_until_input_ends(fleet, rank)));
  Progress progress;
  std::string last;
  std::size_t told = 0;  // number of failed hosts whose reasons were printed
  const auto look = [&] {
    return nodes.look([&](const RemoteCommand& one, std::size_t rank) {
      if (rank != 0) return;
      std::string fresh = one.errors.substr(std::min(last.size(), one.errors.size()));
      fresh.resize(fresh.rfind('\n') == std::string::npos ? 0 : fresh.rfind('\n') + 1);
      last += fresh;
      progress.show(fresh);
    });
  };
  while (!look()) {
    for (; told < nodes.failed().size(); ++told) {
      progress.clear();
      launch::print(stderr, fmt::format("{}\n", nodes.why_failed(nodes.failed()[told], kNode)));
    }
    // The others would wait for it. A run that trains goes on without.
    if (told > 0 && starts(last)) nodes.close_inputs();
    if (const int warnings = launch::new_warnings(); warnings > 0) {
      launch::answer_warnings(warnings);
      progress.clear();
      launch::print(stderr,
                    fmt::format("{}: only the hosts' own commands answer it; send it to `{}` on a host\n",
                                launch::name_of_warning(), kNode));
    }
    const int signals = launch::stop_signals();
    if (signals == 1) nodes.close_inputs();  // again does nothing
    if (signals > 1) return absl::CancelledError("stopped at once");
    std::this_thread::sleep_for(kUpLook);
  }
  progress.clear();
  launch::print(stdout, nodes.all().front().output);
  tell_how_to_go_on(last);
  // A stop may come when the job is done; then all nodes have ended well.
  const bool stopped = launch::stop_signals() > 0 && !nodes.failed().empty();
  if (stopped) return launch::exit_of_stop();
  PACELINE_RETURN_IF_ERROR(nodes.all_well(kNode, told));
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> hosts_in(const std::string& text, const std::string& file) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  int number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++number;
    const std::string host(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    if (host.empty()) continue;
    if (host.front() == '-' || host.find_first_of(" \t") != std::string::npos)
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: '{}' is not the name of a host; write one name a line", file, number, host));
    if (!seen.insert(host).second)
      return absl::InvalidArgumentError(fmt::format("{}:{}: {} is there twice", file, number, host));
    hosts.push_back(host);
  }
  if (hosts.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: no host in it; write one name a line, host 0 first", file));
  return hosts;
}

absl::StatusOr<int> up_command(const UpOptions& options) {
  launch::catch_warning_signals();
  PACELINE_ASSIGN_OR_RETURN(const std::string hosts_text, runs::read_job_file(options.hosts_file));
  Fleet fleet{.hosts = {},
              .directory = options.directory,
              .program = options.program,
              .port = {},
              .sets = options.sets,
              .resume = options.resume};
  PACELINE_ASSIGN_OR_RETURN(fleet.hosts, hosts_in(hosts_text, options.hosts_file));
  TrainOptions asked{.job_file = options.job_file, .sets = options.sets};
  asked.command = "paceline up";
  launch::Placement placement;
  placement.hosts = static_cast<int>(fleet.hosts.size());
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, job_of_hosts(asked, placement));
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(asked));
  if (fleet.hosts.size() > 1 && job.reach.certs.empty() && job.reach.token_file.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: network.certs: hosts have to know each other: write [network] certs = \"DIR\" "
                    "(`paceline certs` makes them)",
                    said.file));
  }
  fleet.port = std::to_string(launch::port_of_coordinator({}, job));
  if (fleet.directory.empty()) fleet.directory = "paceline/" + job.name;
  if (!job.reach.certs.empty()) fleet.sets.push_back("network.certs=certs");
  if (token_alone(job)) fleet.sets.push_back("network.token_file=token");
  if (options.copy_programs) fleet.program = kCopied;
  if (std::system("command -v ssh >/dev/null 2>&1") != 0)
    return absl::NotFoundError("there is no ssh on this host; install it (Debian: openssh-client)");
  launch::catch_stop_signals();
  const auto tell = [](const std::string& line) { launch::print(stderr, line + "\n"); };
  if (!options.copy_programs) {
    tell(fmt::format("looking for paceline on {}", counted(std::ssize(fleet.hosts), "host")));
    PACELINE_RETURN_IF_ERROR(check_versions(fleet));
  }
  tell(fmt::format("copying the job to {}", fleet.directory));
  PACELINE_RETURN_IF_ERROR(copy_files(fleet, said.text, job, options.copy_programs));
  if (options.copy_programs) PACELINE_RETURN_IF_ERROR(check_versions(fleet));
  if (options.doctor) {
    tell("examining the hosts");
    PACELINE_RETURN_IF_ERROR(examine(fleet));
  }
  tell("starting; Ctrl-C stops the run with a checkpoint");
  return run_nodes(fleet);
}

}  // namespace paceline::cli
