#include "paceline/tools/cli/sweep_results.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/lock_file.h"
#include "paceline/tools/cli/build_id.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;
using Results = std::map<std::string, std::vector<KeptResult>>;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;

absl::StatusOr<FileDescriptor> take(const fs::path& out) {
  PACELINE_ASSIGN_OR_RETURN(std::optional<FileDescriptor> held, store::lock_file(out / "lock"));
  if (held) return *std::move(held);
  return absl::FailedPreconditionError(
      fmt::format("{}: another sweep uses this folder; wait for it or choose another 'out'", out.string()));
}

std::optional<std::pair<std::string, KeptResult>> parse_line(absl::string_view line) {
  const auto json = report::Json::parse(line.begin(), line.end(), nullptr, false);
  const auto result = report::sweep_result_from(json);
  if (!result || !json.contains("job")) return std::nullopt;
  for (const char* text : {"job", "build", "inputs"}) {
    if (json.contains(text) && !json.at(text).is_string()) return std::nullopt;
  }
  return std::pair(json.at("job").get<std::string>(),
                   KeptResult{*result, json.value("build", ""), json.value("inputs", "")});
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
    results[std::move(read->first)].push_back(std::move(read->second));
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

const KeptResult* SweepResults::find(const std::string& job, const std::string& inputs) const {
  const auto of_job = results_.find(job);
  if (of_job == results_.end()) return nullptr;
  const std::vector<KeptResult>& kept = of_job->second;
  const auto found = std::find_if(kept.rbegin(), kept.rend(), [&](const KeptResult& one) {
    return one.inputs.empty() || one.inputs == inputs;
  });
  return found == kept.rend() ? nullptr : &*found;
}

absl::Status SweepResults::add(const std::string& job, const report::Json& axes, const std::string& inputs,
                               const report::SweepResult& result) {
  KeptResult kept{result, build_id(), inputs};
  PACELINE_RETURN_IF_ERROR(file_.append_line(report::one_line(sweep_line(job, axes, kept))));
  results_[job].push_back(std::move(kept));
  return absl::OkStatus();
}

report::Json sweep_line(const std::string& job, const report::Json& axes, const KeptResult& kept) {
  report::Json line = {{"axes", axes}, {"job", job}};
  line.update(report::to_json(kept.result));
  if (!kept.build.empty()) line["build"] = kept.build;
  if (!kept.inputs.empty()) line["inputs"] = kept.inputs;
  return line;
}

}  // namespace paceline::cli
