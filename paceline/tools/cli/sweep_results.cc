#include "paceline/tools/cli/sweep_results.h"

#include <cstdint>
#include <optional>

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/lock_file.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
using Results = std::map<std::string, report::SweepResult>;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;

absl::StatusOr<FileDescriptor> take(const fs::path& out) {
  PACELINE_ASSIGN_OR_RETURN(std::optional<FileDescriptor> held, store::lock_file(out / "lock"));
  if (held) return *std::move(held);
  return absl::FailedPreconditionError(
      fmt::format("{}: another sweep uses this folder; wait for it or choose another 'out'", out.string()));
}

std::optional<std::pair<std::string, report::SweepResult>> parse_line(absl::string_view line) {
  const auto json = report::Json::parse(line.begin(), line.end(), nullptr, false);
  const auto result = report::sweep_result_from(json);
  if (!result || !json.contains("job") || !json.at("job").is_string()) return std::nullopt;
  return std::pair(json.at("job").get<std::string>(), *result);
}

absl::StatusOr<Results> read_results(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, store::read_file(path, kMostBytes));
  Results results;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto read = parse_line(line);
    if (!read) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: not a result of a sweep; remove this line, and it is trained again",
                      path.string(), number));
    }
    results.insert_or_assign(std::move(read->first), std::move(read->second));
  }
  return results;
}

}  // namespace

absl::StatusOr<SweepResults> SweepResults::open(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) return store::io_error(out, "made", error.value());
  PACELINE_ASSIGN_OR_RETURN(FileDescriptor lock, take(out));
  const fs::path path = out / "results.jsonl";
  PACELINE_ASSIGN_OR_RETURN(store::LineFile file, store::LineFile::open(path));
  PACELINE_ASSIGN_OR_RETURN(Results results, read_results(path));
  return SweepResults(std::move(lock), std::move(results), std::move(file));
}

const report::SweepResult* SweepResults::find(const std::string& job) const {
  const auto found = results_.find(job);
  return found == results_.end() ? nullptr : &found->second;
}

absl::Status SweepResults::add(const std::string& job, const report::Json& axes,
                               const report::SweepResult& result) {
  PACELINE_RETURN_IF_ERROR(file_.append_line(report::one_line(sweep_line(job, axes, result))));
  results_.insert_or_assign(job, result);
  return absl::OkStatus();
}

report::Json sweep_line(const std::string& job, const report::Json& axes, const report::SweepResult& result) {
  report::Json line = {{"axes", axes}, {"job", job}};
  line.update(report::to_json(result));
  return line;
}

}  // namespace paceline::cli
