// Lines of a program.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "paceline/computing/program/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  const auto answer = paceline::program::parse_answer(line);
  if (!answer.ok() && answer.status().message().find('\n') != absl::string_view::npos) std::abort();
  return 0;
}
