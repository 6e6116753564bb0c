// `paceline-torch`: the same with the built-in models.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/computing/train/built_in.h"
#include "paceline/computing/train/prepared.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/fork_server.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/tools/cli/command_line.h"

namespace {

// The words: the command, the job's file, and those of launch::serve_forks().
constexpr int kForkServerWords = 5;

void prepare_forks(const std::string& job_file) {
  const auto text = paceline::runs::read_job_file(job_file);
  if (!text.ok()) return;
  const auto job = paceline::config::parse_job(*text, job_file);
  if (job.ok()) paceline::train::prepare_forks(*job);
}

// Skips libtorch's own clean-up at the end of a process: it takes 0.1 s without any use, and in a fork each
// page that it touches becomes a copy.
[[noreturn]] void end_at_once(int status) {
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

int main(int argc, char** argv) {
  paceline::engine::use_built_in(paceline::train::built_in_models());
  if (argc < 2 || std::string_view(argv[1]) != paceline::launch::kForkServerCommand)
    end_at_once(paceline::cli::run_paceline(argc, argv));
  if (argc == kForkServerWords) prepare_forks(argv[2]);
  std::optional<std::vector<std::string>> words = paceline::launch::serve_forks(argc, argv);
  if (!words) end_at_once(2);
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  end_at_once(paceline::cli::run_paceline(static_cast<int>(words->size()), pointers.data()));
}
