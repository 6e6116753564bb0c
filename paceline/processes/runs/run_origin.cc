#include "paceline/processes/runs/run_origin.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>

#include <absl/strings/match.h>
#include <absl/strings/strip.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "paceline/base/control_groups.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::runs {

namespace {

constexpr std::int64_t kMostBytes = 1 << 16;
constexpr std::size_t kLongestText = 1000;

std::string command_of_this() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(file)), {});
  while (!words.empty() && words.back() == '\0') words.pop_back();
  // The command as people write it: without the program's folder, and with one name for both programs.
  std::string command = "paceline" + words.substr(std::min(words.find('\0'), words.size()));
  std::replace(command.begin(), command.end(), '\0', ' ');
  return command;
}

std::string processor_of_this() {
  std::ifstream file("/proc/cpuinfo");
  // On ARM the kernel writes the number of a part, and no name.
  utsname system{};
  std::string model = ::uname(&system) == 0 ? fmt::format("{} processor", system.machine) : "processor";
  for (std::string line; std::getline(file, line);) {
    const bool is_part = absl::StartsWith(line, "CPU part");
    if (!(is_part || absl::StartsWith(line, "model name")) || line.find(": ") == std::string::npos) continue;
    const std::string text = line.substr(line.find(": ") + 2);
    model = is_part ? fmt::format("{}, part {}", model, text) : text;
    break;
  }
  return fmt::format("{} × {}", usable_processors(), model);
}

std::string host_of_this() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string text_of(const report::Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? store::printable(found->get<std::string>(), kLongestText)
                                                   : "";
}

}  // namespace

std::filesystem::path origin_file(const store::RunPaths& run) { return run.root / "origin.json"; }

RunOrigin this_origin(const std::string& version) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return {.command = command_of_this(),
          .date = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(now)),
          .host = host_of_this(),
          .processor = processor_of_this(),
          .version = version,
          .data_note = {}};
}

absl::Status write_origin(const store::RunPaths& run, const RunOrigin& origin) {
  report::Json json = {{"command", origin.command},
                       {"date", origin.date},
                       {"host", origin.host},
                       {"processor", origin.processor},
                       {"version", origin.version}};
  if (!origin.data_note.empty()) json["data_note"] = origin.data_note;
  return store::atomic_write(origin_file(run), report::one_line(json) + "\n");
}

std::optional<RunOrigin> read_origin(const store::RunPaths& run) {
  const auto text = store::read_file(origin_file(run), kMostBytes);
  if (!text.ok()) return std::nullopt;
  const report::Json json = report::Json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return RunOrigin{text_of(json, "command"),   text_of(json, "date"),    text_of(json, "host"),
                   text_of(json, "processor"), text_of(json, "version"), text_of(json, "data_note")};
}

}  // namespace paceline::runs
