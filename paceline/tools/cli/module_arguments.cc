#include "paceline/tools/cli/module_arguments.h"

#include <algorithm>

namespace paceline::cli {

std::vector<std::string> module_arguments(const std::vector<std::string>& given,
                                          const std::vector<std::string>& unknown, const std::string& taken) {
  std::vector<std::string> arguments;
  auto next = unknown.rbegin();
  bool has_taken = false;
  for (auto word = given.rbegin(); word != given.rend(); ++word) {
    if (next != unknown.rend() && *word == *next) {
      arguments.push_back(*next++);
    } else if (!has_taken && *word == taken) {
      arguments.push_back(taken);
      has_taken = true;
    }
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

}  // namespace paceline::cli
