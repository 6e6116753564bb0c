#include "paceline/cli/torch_program.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/engine/built_in.h"
#include "paceline/peer/exit_report.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

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

// The linear algebra under libtorch waits for ever where it gets no memory, before anything of ours runs.
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

}  // namespace

absl::Status need_built_in_models() {
  if (engine::built_in() != nullptr) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(check_address_space());
  std::error_code ignored;
  const fs::path other = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "paceline-torch";
  std::vector<std::string> words = own_command_line();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  peer::pass_exit_descriptor_on();
  execv(other.c_str(), pointers.data());
  return engine::no_built_in_models();
}

}  // namespace paceline::cli
