#include "paceline/computing/program/said_before.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <nlohmann/json.hpp>

#include "paceline/records/store/strict_json.h"

namespace paceline::program {

namespace {

constexpr const char* kVariable = "PACELINE_SAID_FD";
constexpr std::size_t kAssumptionDepth = 3;

}  // namespace

std::optional<Model> model_said_before(const std::string& said, const StartMessage& start) {
  const std::size_t end = said.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const auto assumed = store::parse_strict_json(said.substr(0, end), kAssumptionDepth);
  if (!assumed.ok() || !assumed->is_object() || assumed->empty()) return std::nullopt;
  const auto real = nlohmann::json::parse(line_of(start));
  for (const auto& [key, value] : assumed->items()) {
    if (!real.contains(key) || real[key] != value) return std::nullopt;
  }
  auto answer = parse_answer(said.substr(end + 1));
  Model* model = answer.ok() ? std::get_if<Model>(&*answer) : nullptr;
  if (model == nullptr) return std::nullopt;
  return std::move(*model);
}

std::string take_said() {
  const char* const named = std::getenv(kVariable);
  if (named == nullptr) return "";
  int file = -1;
  const bool is_number = absl::SimpleAtoi(named, &file);
  unsetenv(kVariable);
  struct stat status {};
  // A variable that was left over may name a terminal, say, which is not this one's to close.
  if (!is_number || file <= STDERR_FILENO || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const absl::Cleanup close_file = [&] { close(file); };
  if (status.st_size > static_cast<off_t>(2 * kLongestLine)) return "";
  std::string said(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t got = pread(file, said.data(), said.size(), 0);
  return got == status.st_size ? said : "";
}

}  // namespace paceline::program
