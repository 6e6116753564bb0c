#include "paceline/tools/cli/torch_program.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/memory_file.h"
#include "paceline/base/status_macros.h"
#include "paceline/computing/engine/built_in.h"
#include "paceline/processes/launch/child_process.h"
#include "paceline/processes/launch/stop_signals.h"
#include "paceline/processes/peer/exit_report.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

constexpr char kTorchProgram[] = "paceline-torch";

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The linear algebra under libtorch waits for ever if it gets no memory, before any code of ours runs.
absl::Status check_address_space() {
  constexpr double kAlways_bytes = 2e9;
  constexpr double kForAProcessor_bytes = 64e6;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return absl::OkStatus();
  const double need = kAlways_bytes + kForAProcessor_bytes * std::thread::hardware_concurrency();
  const auto allowed = static_cast<double>(limit.rlim_cur);
  if (allowed >= need) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "ulimit -v allows a process {:.1f} GB, and with libtorch it takes {:.1f} GB here; raise it, for "
      "example ulimit -v unlimited",
      allowed / 1e9, need / 1e9));
}

// Memory that another process can read or write as a file.
FileDescriptor memory_file(const std::string& text) {
  FileDescriptor file = new_memory_file("paceline-question");
  const auto size = static_cast<ssize_t>(text.size());
  return file.valid() && ::pwrite(file.get(), text.data(), text.size(), 0) == size ? std::move(file)
                                                                                   : FileDescriptor();
}

std::string text_in(const FileDescriptor& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return "";
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

std::string_view to_string(TorchQuestion question) {
  return question == TorchQuestion::kSizes ? "sizes" : "host";
}

namespace {

// A question to another process, whose words name files: the job, and the one for the answer.
struct Asked {
  FileDescriptor job, answer;
  std::vector<std::string> words;

  std::vector<int> inherited() const { return {job.get(), answer.get()}; }
};

std::string name_of(const FileDescriptor& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

absl::StatusOr<Asked> ask(TorchQuestion question, const std::string& job_toml) {
  if (!launch::has_torch_program()) return engine::no_built_in_models();
  PACELINE_RETURN_IF_ERROR(check_address_space());
  Asked asked{memory_file(job_toml), memory_file(""), {}};
  if (!asked.job.valid() || !asked.answer.valid())
    return absl::ResourceExhaustedError("no memory for a job file of this length; see ulimit -f");
  asked.words = {"models", std::string(to_string(question)), name_of(asked.job), name_of(asked.answer)};
  return asked;
}

absl::StatusOr<std::string> answer_of(launch::ChildProcess child, const Asked& asked) {
  const launch::ChildProcess::End end = child.wait();
  if (end.wait_status != 0) return launch::reason_of(child, end);
  return text_in(asked.answer);
}

absl::StatusOr<std::string> run_for_answer(const Asked& asked) {
  PACELINE_ASSIGN_OR_RETURN(launch::ChildProcess child,
                            launch::ChildProcess::start(launch::ChildProgram::kWithTorch, kTorchProgram,
                                                        asked.words, "/dev/null", asked.inherited()));
  return answer_of(std::move(child), asked);
}

}  // namespace

absl::StatusOr<std::string> ask_torch_program(TorchQuestion question, const std::string& job_toml) {
  PACELINE_ASSIGN_OR_RETURN(const Asked asked, ask(question, job_toml));
  return run_for_answer(asked);
}

absl::StatusOr<ForkedAnswer> ask_fork_server(TorchQuestion question, const std::string& job_toml) {
  PACELINE_ASSIGN_OR_RETURN(const Asked asked, ask(question, job_toml));
  ForkedAnswer forked;
  if (auto server =
          launch::ForkServer::start(launch::ChildProgram::kWithTorch,
                                    {launch::kForkServerCommand, name_of(asked.job)}, asked.inherited());
      server.ok()) {
    if (auto child = server->start_child(kTorchProgram, asked.words, "/dev/null"); child.ok()) {
      PACELINE_ASSIGN_OR_RETURN(forked.answer, answer_of(*std::move(child), asked));
      forked.server = std::make_shared<launch::ForkServer>(*std::move(server));
      return forked;
    }
  }
  PACELINE_ASSIGN_OR_RETURN(forked.answer, run_for_answer(asked));
  return forked;
}

absl::Status need_built_in_models() {
  if (engine::built_in() != nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(check_address_space());
  std::error_code ignored;
  const fs::path other = fs::read_symlink("/proc/self/exe", ignored).parent_path() / kTorchProgram;
  std::vector<std::string> words = own_command_line();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  peer::pass_exit_descriptor_on();
  launch::ignore_warning_signals();
  execv(other.c_str(), pointers.data());
  return engine::no_built_in_models();
}

}  // namespace paceline::cli
