// `paceline-torch`: the same with the built-in models.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/command_line.h"
#include "paceline/launch/fork_server.h"
#include "paceline/train/built_in.h"

int main(int argc, char** argv) {
  paceline::engine::use_built_in(paceline::train::built_in_models());
  if (argc < 2 || std::string_view(argv[1]) != paceline::launch::kForkServerCommand)
    return paceline::cli::run_paceline(argc, argv);
  std::optional<std::vector<std::string>> words = paceline::launch::serve_forks(argc, argv);
  if (!words) return 2;
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return paceline::cli::run_paceline(static_cast<int>(words->size()), pointers.data());
}
