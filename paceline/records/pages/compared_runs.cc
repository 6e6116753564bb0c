#include "paceline/records/pages/compared_runs.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/records/tables/ranking.h"
#include "paceline/records/tables/tables.h"

namespace paceline::report {

namespace {

// The head of a column for a page, which has more room than a terminal.
std::string on_a_page(std::string head) {
  if (head == "to target (s)") return "time to target (s)";
  if (head == "gap max") return "largest gap";
  if (head == "staleness mean") return "mean staleness";
  if (head == "max") return "largest staleness";
  return head;
}

}  // namespace

std::vector<Json> compared(const std::vector<Summary>& summaries, std::vector<Json> documents,
                           const PlannedRuns& planned) {
  PACELINE_CHECK(summaries.size() == documents.size(), "{} documents of {} runs", documents.size(),
                 summaries.size());
  const Ranking ranking = rank(summaries, planned);
  const bool seeds = planned.each > 1 || groups_of(summaries).size() < documents.size();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const RunInfo& run = summaries[i].run;
    documents[i]["ranking"] = {{"fastest", run.policy == ranking.fastest},
                               {"ended", came_to_its_end(summaries[i], planned)},
                               {"verdict", ranking.verdict}};
    const std::string mark = ending_mark({run.policy, {&summaries[i]}}, {planned.all, 1});
    documents[i]["policy"] = run.policy + mark;
    if (!seeds) continue;
    documents[i]["group"] = run.policy;
    documents[i]["seed"] = run.seed;
    documents[i]["policy"] = fmt::format("{}, seed {}{}", run.policy, run.seed, mark);
  }
  if (seeds) {
    ComparisonRows rows = comparison_rows(summaries, planned);
    for (std::string& head : rows.head) head = on_a_page(std::move(head));
    documents.front()["ranking"]["means"] = {{"head", std::move(rows.head)}, {"rows", std::move(rows.rows)}};
  }
  return documents;
}

}  // namespace paceline::report
