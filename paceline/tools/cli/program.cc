#include "paceline/tools/cli/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <typeinfo>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "paceline/base/exit_reason.h"
#include "paceline/base/likely_meant.h"
#include "paceline/base/printable.h"
#include "paceline/base/program_version.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/disconnect.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/peer/exit_report.h"
#include "paceline/tools/cli/command_text.h"

namespace paceline::cli {

namespace {

constexpr int kExitOfError = 2;

// Ends a process that has nothing left to spare: neither memory nor a clean end.
[[noreturn]] void end_at_once(std::string_view line) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  constexpr std::size_t kName = sizeof("paceline: ") - 1;
  peer::report_own_error_at_once(line.substr(kName, line.size() - kName - 1));
  ::_exit(kExitOfError);
}

[[noreturn]] void out_of_memory() {
  end_at_once(
      "paceline: out of memory: this host, or a limit (ulimit -v, the container's), gives no more; raise it, "
      "or train a smaller model\n");
}

// A thread that was not started ends this process with a line.
void end_without_thread(const std::error_code& error) {
  if (error == std::errc::resource_unavailable_try_again || error == std::errc::not_enough_memory)
    end_at_once(
        "paceline: no thread could be started: this host, or a limit (ulimit -u, ulimit -v, the "
        "container's), gives no more; raise it\n");
  if (error == std::errc::operation_not_permitted)
    end_at_once(
        "paceline: no thread could be started: the container's seccomp profile forbids it; use a newer "
        "Docker "
        "or libseccomp\n");
}

// A resource that the host refuses is not a bug of ours; any other exception that is not caught is one.
[[noreturn]] void on_terminate() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    out_of_memory();
  } catch (const std::exception& error) {
    const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
    // The error of a file is one, too.
    if (of_system != nullptr && typeid(error) == typeid(std::system_error))
      end_without_thread(of_system->code());
    launch::print(stderr, fmt::format("paceline: a bug of Paceline: {}\n", error.what()));
  } catch (...) {
  }
  std::abort();
}

// exec() keeps an ignored SIGCHLD, with which the ends of children are lost, and blocked signals, which would never come.
void forget_starters_signals() {
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Opens the standard streams that are closed, because a file that took their number would get the text for
// people. Returns whether standard output was open.
bool keep_standard_streams() {
  const bool output = ::fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 0) ::close(fd);
  return output;
}

// Called before any work: a device that takes nothing reports that even for an empty write.
absl::Status check_standard_output(bool open) {
  struct stat about {};
  const bool device = open && ::fstat(STDOUT_FILENO, &about) == 0 && S_ISCHR(about.st_mode);
  int error = open ? 0 : EBADF;
  if (device && ::write(STDOUT_FILENO, "", 0) < 0) error = errno;
  if (error == 0) error = launch::stdout_error();
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("standard output cannot be written: {}; send it somewhere else, for example to a file",
                  error == EBADF ? "it is closed" : std::generic_category().message(error)));
}

int complain(const absl::Status& status) {
  launch::print(stderr, fmt::format("paceline: {}\n", printable_lines(std::string(status.message()))));
  peer::report_exit(status);
  if (exit_reason_of(status) == ExitReason::kInterrupted) return kExitOfOthersStop;
  return absl::IsCancelled(status) ? launch::exit_of_stop() : kExitOfError;
}

std::set<std::string> commands_of(const CLI::App& app) {
  std::set<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.insert(command->get_name());
  return names;
}

std::set<std::string> options_of(const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.insert("--" + name);
  }
  return names;
}

bool has_option(const CLI::App& app, const std::string& word) {
  return app.get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
}

absl::Status misplaced_option(const CLI::App& app, const std::string& word) {
  if (const auto meant = likely_meant(word, options_of(app)))
    return absl::InvalidArgumentError(
        fmt::format("{}: did you mean '{}'? See paceline --help", word, *meant));
  return absl::InvalidArgumentError(
      fmt::format("paceline itself has no option {}; write the command first, for example paceline train {}; "
                  "see paceline --help",
                  word, word));
}

absl::Status unknown_command(const CLI::App& app, const std::string& word) {
  std::set<std::string> known;
  for (const CommandText& command : words_of(app).commands) known.insert(command.name);
  const auto meant = likely_meant(word, known);
  if (meant) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is not a command. Did you mean '{}'? paceline --help lists them all", word, *meant));
  }
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is not a command. The commands are {}; see paceline --help", word, fmt::join(known, ", ")));
}

// The key of a job that is written like an option: "epochs" of --epochs, "optimizer.lr" of --lr.
std::optional<std::string> key_of_job(const std::string& option, const std::string& value) {
  std::string key = option.substr(option.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  for (const char* section : {"", "optimizer.", "model.", "data.", "sync.", "evaluate.", "checkpoint."}) {
    if (config::parse_job("", "the default job", {fmt::format("{}{}={}", section, key, value)}).ok())
      return section + key;
  }
  return std::nullopt;
}

using Words = std::vector<std::string>;

// The value of an option that the command does not have: after its '=', or the next word.
std::string value_behind(const std::string& option, const Words& words) {
  if (const std::size_t equals = option.find('='); equals != std::string::npos)
    return option.substr(equals + 1);
  const auto at = std::find(words.begin(), words.end(), option);
  return at == words.end() || at + 1 == words.end() || (at + 1)->starts_with("-") ? "" : *(at + 1);
}

absl::Status unknown_option(const CLI::App& command, const std::string& word, const Words& words) {
  const std::string name = word.substr(0, word.find('='));
  const std::string begin = fmt::format("{} has no option {}", command.get_name(), name);
  const std::string value = value_behind(word, words);
  if (name.starts_with("--") && name.size() > 2 && options_of(command).contains("--set")) {
    if (const auto key = key_of_job(name, value.empty() ? "1" : value))
      return absl::InvalidArgumentError(
          fmt::format("{}; it is a key of the job: write --set {}={}; see paceline {} --help", begin, *key,
                      value.empty() ? "VALUE" : value, command.get_name()));
  }
  if (const auto meant = likely_meant(name, options_of(command)))
    return absl::InvalidArgumentError(
        fmt::format("{}. Did you mean '{}'? See paceline {} --help", begin, *meant, command.get_name()));
  return absl::InvalidArgumentError(fmt::format("{}; see paceline {} --help", begin, command.get_name()));
}

absl::Status one_word_too_many(const CLI::App& command, const std::string& word) {
  std::string usage = "[options]";
  for (const CLI::Option* one : command.get_options()) {
    if (!one->get_positional() || one->get_group().empty()) continue;
    usage += one->get_required() ? " " + one->get_name() : " [" + one->get_name() + "]";
  }
  return absl::InvalidArgumentError(
      fmt::format("{0}: '{1}' is one word too many; write paceline {0} {2}; see "
                  "paceline {0} --help",
                  command.get_name(), word, usage));
}

// The error for a wrong word; nothing if the words are right. A wrong option counts before the words that
// were meant for it.
std::optional<absl::Status> unknown_word(const CLI::App& app, const Words& words) {
  std::optional<absl::Status> too_many;
  for (const CLI::App* command : app.get_subcommands()) {
    for (const std::string& word : command->remaining()) {
      const bool option = word.starts_with("-") && word.size() > 1;
      // Other words belong to the program that the command starts.
      if (command->get_allow_extras() && !(option && likely_meant(word, options_of(*command)))) continue;
      if (option) return unknown_option(*command, word, words);
      if (!too_many) too_many = one_word_too_many(*command, word);
    }
  }
  return too_many;
}

// The parser says "--resume: 1 required TEXT missing" and "--seeds: Value x not in range 1 to 100".
std::string said_of(const CLI::ParseError& error) {
  const std::string said = error.what();
  const std::size_t colon = said.find(": ");
  const bool missing = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
                       said.ends_with(" missing") && colon != std::string::npos;
  if (missing) return said.substr(0, colon) + ": needs a value";
  constexpr std::string_view kRange = " not in range ";
  const std::size_t range = said.rfind(kRange);
  if (range == std::string::npos || colon == std::string::npos) return said;
  return fmt::format("{}: write a whole number from {}", said.substr(0, colon),
                     said.substr(range + kRange.size()));
}

// --help and --version; or what is wrong with the words.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& error, const Words& words) {
  if (const auto unknown = error.get_exit_code() != 0 ? unknown_word(app, words) : std::nullopt)
    return complain(*unknown);
  if (error.get_exit_code() != 0) {
    const auto called = app.get_subcommands();
    return complain(
        absl::InvalidArgumentError(fmt::format("{}; see paceline {}--help", said_of(error),
                                               called.empty() ? "" : called.front()->get_name() + " ")));
  }
  std::ostringstream text;
  const int status = app.exit(error, text, text);
  launch::print(stdout, text.str());
  return status;
}

// If the command itself failed, its own line says more.
int with_output_written(int status) {
  if (status != 0) return status;
  const absl::Status written = check_standard_output(true);
  return written.ok() ? status : complain(written);
}

}  // namespace

absl::StatusOr<int> exit_of(const absl::Status& status) {
  if (!status.ok()) return status;
  return 0;
}

int run_program(CLI::App& app, const Command& command, int argc, char** argv) {
  forget_starters_signals();
  peer::take_exit_descriptor();
  std::set_new_handler(out_of_memory);
  std::set_terminate(on_terminate);
  // A file that may not grow is an error like any other.
  std::signal(SIGXFSZ, SIG_IGN);
  const absl::Status output = check_standard_output(keep_standard_streams());
  if (!output.ok()) return complain(output);
  // The name for top and pgrep: a child that was started through /proc/self/exe would be called "exe".
  prctl(PR_SET_NAME, app.get_name().c_str());
  // The log has no colors, and never goes between the results on standard output.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("paceline"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  app.set_version_flag("--version", fmt::format("paceline {}", kProgramVersion));
  app.require_subcommand(1);
  if (argc > 1 && argv[1][0] != '-' && !commands_of(app).contains(argv[1]))
    return complain(unknown_command(app, argv[1]));
  if (argc == 1) return complain(absl::InvalidArgumentError("write a command; paceline --help lists them"));
  if (const std::string first = argv[1]; first[0] == '-' && !has_option(app, first))
    return complain(misplaced_option(app, first));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return with_output_written(end_of_parsing(app, error, Words(argv, argv + argc)));
  }
  const absl::StatusOr<int> status = command();
  // A process of a job that another command has stopped did all that it should.
  if (wire::is_stop(status.status())) {
    peer::report_exit(status.status());
    return 0;
  }
  if (!status.ok()) return complain(status.status());
  if (*status == 0) peer::report_exit(absl::OkStatus());
  return with_output_written(*status);
}

}  // namespace paceline::cli
