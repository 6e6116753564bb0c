#include "paceline/tools/cli/planned_comparison.h"

#include <cstdint>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/base/shell_word.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::cli {

namespace {

constexpr std::int64_t kMostPlannedBytes = 64 << 20;

std::filesystem::path planned_file(const std::string& folder) {
  return std::filesystem::path(folder) / store::kComparisonFile;
}

}  // namespace

report::PlannedRuns counts_of(const PlannedComparison& planned) {
  std::set<std::vector<std::string>> variants;
  for (std::vector<std::string> sets : planned.runs) {
    std::erase_if(sets, [](const std::string& set) { return set.starts_with("seed="); });
    variants.insert(std::move(sets));
  }
  const std::size_t all = planned.runs.size();
  return {.all = all, .each = variants.empty() ? 0 : all / variants.size()};
}

absl::Status write_planned(const std::string& folder, const PlannedComparison& planned) {
  const nlohmann::json document = {{"job", planned.job_toml},
                                   {"program", planned.program},
                                   {"planned_program", planned.planned_program},
                                   {"data_note", planned.data_note},
                                   {"virtual", planned.in_virtual_time},
                                   {"runs", planned.runs}};
  return store::atomic_write(planned_file(folder), document.dump(1));
}

absl::StatusOr<PlannedComparison> read_planned(const std::string& folder) {
  const std::string file = planned_file(folder).string();
  auto text = store::read_file(file, kMostPlannedBytes);
  if (!text.ok() && store::find_run(folder).ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: is the folder of a run, not of a comparison; go on with it: paceline train --resume {}", folder,
        shell_word(folder)));
  }
  if (!text.ok()) {
    return absl::NotFoundError(fmt::format("{}: is not the folder of a comparison that can go on: {}", folder,
                                           std::string(text.status().message())));
  }
  const auto document = nlohmann::json::parse(*text, nullptr, false);
  PlannedComparison planned;
  try {
    planned.job_toml = document.at("job").get<std::string>();
    planned.program = document.at("program").get<std::string>();
    planned.planned_program = document.value("planned_program", "");
    planned.data_note = document.value("data_note", "");
    planned.in_virtual_time = document.at("virtual").get<bool>();
    planned.runs = document.at("runs").get<std::vector<std::vector<std::string>>>();
  } catch (const nlohmann::json::exception&) {
    return absl::DataLossError(fmt::format("{}: is damaged; begin the comparison again", file));
  }
  return planned;
}

}  // namespace paceline::cli
