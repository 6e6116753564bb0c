#include "paceline/tools/cli/build_id.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "paceline/base/program_version.h"
#include "paceline/base/text_hash.h"

namespace paceline::cli {

std::string program_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return fmt::format("{:016x}", text_hash(bytes));
}

const std::string& build_id() {
  static const std::string id = fmt::format("{} {}", kProgramVersion, program_hash());
  return id;
}

}  // namespace paceline::cli
