#include "paceline/tools/cli/comparison.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "paceline/processes/launch/print.h"
#include "paceline/records/pages/compared_runs.h"
#include "paceline/records/pages/html.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/tables/terminal_text.h"
#include "paceline/tools/cli/planned_comparison.h"

namespace paceline::cli {

void Comparison::add(runs::RunReport report) {
  summaries.push_back(std::move(report.summary));
  // Its own report lies in its own folder, beside the comparison's.
  report.document["folder"] = report.run.paths.root.filename().string();
  documents.push_back(std::move(report.document));
}

std::vector<std::string> runs_in(const std::string& folder) {
  std::vector<std::string> runs;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (store::find_run(entry->path()).ok()) runs.push_back(entry->path().string());
  }
  // Runs of one job have its name in front, then the time.
  std::sort(runs.begin(), runs.end());
  return runs;
}

absl::StatusOr<Comparison> read_comparison(const std::string& folder) {
  Comparison comparison;
  for (const std::string& run : runs_in(folder)) {
    absl::StatusOr<runs::RunReport> report = runs::read_run(run);
    if (report.ok()) {
      comparison.add(*std::move(report));
    } else {
      launch::print(stderr,
                    fmt::format("left out: {}\n", report::printable(std::string(report.status().message()))));
    }
  }
  const auto planned = read_planned(folder);
  comparison.planned =
      planned.ok() ? counts_of(*planned) : report::PlannedRuns{.all = comparison.documents.size(), .each = 0};
  if (!comparison.documents.empty()) return comparison;
  return absl::FailedPreconditionError(fmt::format("{}: no run in it has trained", folder));
}

absl::Status write_comparison(const std::string& folder, const Comparison& comparison) {
  return store::atomic_write(store::RunPaths{folder}.report(),
                             report::render_comparison(report::compared(
                                 comparison.summaries, comparison.documents, comparison.planned)));
}

void print_comparison(const Comparison& comparison, const std::string& folder, bool json) {
  if (!json) {
    // All have the same data.
    const std::string note =
        comparison.documents.empty() ? "" : runs::data_note_line(comparison.documents.front());
    return launch::print(
        stdout,
        fmt::format("{}{}\nreport: {}/report.html\n",
                    report::comparison_table(comparison.summaries, comparison.planned), note, folder));
  }
  for (std::size_t i = 0; i < comparison.documents.size(); ++i) {
    const report::Json& document = comparison.documents[i];
    const report::Json line({{"policy", document.at("policy")},
                             {"seed", comparison.summaries[i].run.seed},
                             {"folder", document.at("folder")},
                             {"target", document.at("target")},
                             {"summary", document.at("summary")}});
    launch::print(stdout, report::one_line(line) + "\n");
  }
}

}  // namespace paceline::cli
