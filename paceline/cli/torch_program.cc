#include "paceline/cli/torch_program.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "paceline/engine/built_in.h"

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

}  // namespace

absl::Status need_built_in_models() {
  if (engine::built_in() != nullptr) return absl::OkStatus();
  std::error_code ignored;
  const fs::path other = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "paceline-torch";
  std::vector<std::string> words = own_command_line();
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  execv(other.c_str(), pointers.data());
  return engine::no_built_in_models();
}

}  // namespace paceline::cli
