#include "paceline/records/store/journal_reader.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/attempt_range.h"
#include "paceline/records/store/journal_events.h"
#include "paceline/records/store/journal_row.h"
#include "paceline/records/store/journal_schema.h"

namespace paceline::store {

namespace {

// Passes on only the kinds of events for which a function is set.
struct Picker final : control::RunListener {
  std::function<void(const control::Fact&)> fact;
  std::function<void(Time, const control::CommitRecord&)> commit;
  std::function<void(const control::Evaluated&)> evaluation;
  std::function<void(const control::PlanAdopted&)> plan;
  std::function<void(const control::BatchDone&)> batch;

  void on_fact(const control::Fact& what) override { fact(what); }
  void on_order(Time at, const control::Order& order) override {
    std::visit(Overloaded{[&](const control::CommitRecord& what) { commit(at, what); },
                          [&](const control::PlanAdopted& what) { plan(what); },
                          [&](const control::BatchDone& what) { batch(what); }, [](const auto&) {}},
               order);
  }
  void on_evaluated(const control::Evaluated& what) override { evaluation(what); }
};

absl::Status advance_all(const std::vector<std::unique_ptr<Events>>& tables) {
  for (const auto& table : tables) PACELINE_RETURN_IF_ERROR(table->advance());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JournalReader> JournalReader::open(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(Database database, open_journal(path, Database::Mode::kRead));
  return JournalReader(path, std::move(database));
}

absl::StatusOr<std::vector<Attempt>> JournalReader::attempts() const {
  std::vector<Attempt> attempts;
  PACELINE_ASSIGN_OR_RETURN(Statement rows,
                            database_.prepare("SELECT attempt, from_version FROM attempts ORDER BY attempt"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool row, rows.next());
    if (!row) return attempts;
    attempts.push_back({rows.integer(0), Version(std::max<std::int64_t>(0, rows.integer(1)))});
  }
}

absl::StatusOr<std::map<std::string, std::string>> JournalReader::run() const {
  std::map<std::string, std::string> values;
  PACELINE_ASSIGN_OR_RETURN(Statement rows, database_.prepare("SELECT key, value FROM run"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool row, rows.next());
    if (!row) return values;
    values[rows.text(0)] = rows.text(1);
  }
}

absl::StatusOr<bool> JournalReader::tells_of_planning(std::int64_t attempt) const {
  PACELINE_ASSIGN_OR_RETURN(const SeqRange range, range_of_attempt(database_, "facts", attempt));
  return database_.has_row(
      "SELECT 1 FROM facts WHERE seq >= ?2 AND seq < ?3 AND attempt = ?1 AND planning IS NOT NULL AND "
      "kind <> 'ready' LIMIT 1",
      attempt, range.first, range.end);
}

absl::StatusOr<bool> JournalReader::tells_of_short_memory(std::int64_t attempt) const {
  return database_.has_row("SELECT 1 FROM facts WHERE attempt = ? AND kind = 'device_out_of_memory' LIMIT 1",
                           attempt);
}

absl::Status JournalReader::replay(control::RunListener& listener, std::int64_t attempt) {
  return read(kAll, attempt, listener);
}

absl::Status JournalReader::decisions(control::RunListener& listener, std::int64_t attempt) {
  return read(kFacts | kCommits | kReleases | kOtherOrders | kPlans | kBatches, attempt, listener);
}

absl::Status JournalReader::replay_after(control::RunListener& listener, std::int64_t attempt,
                                         std::int64_t& after, Texts& texts) {
  return read_after(kAll, attempt, after, texts, listener);
}

absl::Status JournalReader::replay_some(control::RunListener& listener, std::int64_t attempt,
                                        std::int64_t& after, std::int64_t& left, Texts& texts) {
  return read_some(kAll, attempt, after, left, texts, listener);
}

absl::StatusOr<std::int64_t> JournalReader::newest_fact() const {
  PACELINE_ASSIGN_OR_RETURN(Statement newest, database_.prepare("SELECT ifnull(max(seq), 0) FROM facts"));
  PACELINE_RETURN_IF_ERROR(newest.start());
  PACELINE_RETURN_IF_ERROR(newest.next().status());
  return newest.integer(0);
}

absl::StatusOr<std::vector<control::ProcessReport>> JournalReader::processes() const {
  // One transaction, so that both tables are seen as of the same instant.
  PACELINE_RETURN_IF_ERROR(database_.execute("BEGIN"));
  auto all = read_processes();
  database_.execute("ROLLBACK").IgnoreError();
  return all;
}

absl::StatusOr<std::vector<control::ProcessReport>> JournalReader::read_processes() const {
  std::vector<control::ProcessReport> all;
  PACELINE_ASSIGN_OR_RETURN(const bool today, is_of_today(database_));
  if (!today) return all;
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      database_.prepare("SELECT process, at_ns, resident_bytes FROM processes ORDER BY process"));
  PACELINE_ASSIGN_OR_RETURN(
      Statement traffic,
      database_.prepare("SELECT process, peer, kind, bytes FROM traffic ORDER BY process, peer, kind"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool there, rows.next());
    if (!there) break;
    control::ProcessReport& one = all.emplace_back();
    one.process = rows.text(0);
    one.at = Time(Duration(rows.integer(1)));
    one.resident_bytes = std::max<std::int64_t>(0, rows.integer(2));
  }
  PACELINE_RETURN_IF_ERROR(traffic.start());
  auto from = all.begin();
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool there, traffic.next());
    if (!there) return all;
    const std::string process = traffic.text(0);
    while (from != all.end() && from->process < process) ++from;
    // A process that reported traffic also reported its memory.
    if (from == all.end() || from->process != process)
      return absl::DataLossError(fmt::format("{}: damaged: what processes sent", path_.string()));
    from->sent.push_back({traffic.text(1), traffic.text(2), std::max<std::int64_t>(0, traffic.integer(3))});
  }
}

absl::StatusOr<std::vector<coordinator::ShardRecords>> JournalReader::shard_lengths() const {
  std::vector<coordinator::ShardRecords> all;
  PACELINE_ASSIGN_OR_RETURN(const bool there, has_shard_lengths(database_));
  if (!there) return all;
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows, database_.prepare("SELECT shard, records FROM shard_lengths WHERE attempt >= (SELECT "
                                        "ifnull(max(attempt), 0) FROM attempts WHERE from_version = 0)"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  while (true) {
    PACELINE_ASSIGN_OR_RETURN(const bool row, rows.next());
    if (!row) return all;
    const std::int64_t shard = rows.integer(0), records = rows.integer(1);
    if (shard < 0 || shard > std::numeric_limits<std::int32_t>::max() || records < 0)
      return absl::DataLossError(
          fmt::format("{}: damaged: the lengths of shards; move it away, the checkpoints do not need it",
                      path_.string()));
    all.push_back({static_cast<std::int32_t>(shard), records});
  }
}

absl::StatusOr<Statement> JournalReader::row_of(std::string_view table, std::string_view columns,
                                                std::int64_t attempt, std::string_view direction) const {
  PACELINE_ASSIGN_OR_RETURN(const SeqRange range, range_of_attempt(database_, table, attempt));
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      database_.prepare(fmt::format(
          "SELECT {} FROM {} WHERE seq >= ?2 AND seq < ?3 AND attempt = ?1 ORDER BY seq {} LIMIT 1", columns,
          table, direction)));
  PACELINE_RETURN_IF_ERROR(rows.start(attempt, range.first, range.end));
  return rows;
}

absl::StatusOr<std::optional<Committed>> JournalReader::committed(std::int64_t attempt) const {
  PACELINE_ASSIGN_OR_RETURN(Statement first, row_of("commits", "version", attempt, "ASC"));
  PACELINE_ASSIGN_OR_RETURN(const bool any, first.next());
  if (!any) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(Statement newest, row_of("commits", "version", attempt, "DESC"));
  PACELINE_RETURN_IF_ERROR(newest.next().status());
  Row from(first), to(newest);
  const Committed versions{from.version(0), to.version(0)};
  if (!from.sane() || !to.sane() || versions.newest < versions.first)
    return absl::DataLossError(
        fmt::format("{}: damaged: the commits of attempt {}; move it away, the checkpoints do not need it",
                    path_.string(), attempt));
  return versions;
}

absl::StatusOr<std::optional<LastPlan>> JournalReader::last_plan() {
  PACELINE_ASSIGN_OR_RETURN(Statement newest,
                            database_.prepare("SELECT seq, attempt FROM plans ORDER BY seq DESC LIMIT 1"));
  PACELINE_RETURN_IF_ERROR(newest.start());
  PACELINE_ASSIGN_OR_RETURN(const bool any, newest.next());
  if (!any) return std::nullopt;
  LastPlan last;
  last.attempt = newest.integer(1);
  Picker picker;
  picker.plan = [&](const control::PlanAdopted& adopted) { last.adopted = adopted; };
  std::int64_t before = newest.integer(0) - 1;
  PACELINE_RETURN_IF_ERROR(read_after(kPlans, last.attempt, before, texts_, picker));
  return last;
}

absl::StatusOr<std::optional<double>> JournalReader::last_queue() const {
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      database_.prepare("SELECT queue FROM batches WHERE cost IS NOT NULL ORDER BY seq DESC LIMIT 1"));
  PACELINE_RETURN_IF_ERROR(rows.start());
  PACELINE_ASSIGN_OR_RETURN(const bool any, rows.next());
  if (!any) return std::nullopt;
  Row row(rows);
  const double queue = row.real(0);
  if (!row.sane()) return absl::DataLossError(fmt::format("{}: damaged: its batches", path_.string()));
  return queue;
}

absl::StatusOr<std::optional<control::Finish>> JournalReader::finish() const {
  PACELINE_ASSIGN_OR_RETURN(const bool today, is_of_today(database_));
  PACELINE_ASSIGN_OR_RETURN(Statement newest, database_.prepare("SELECT max(attempt) FROM attempts"));
  PACELINE_RETURN_IF_ERROR(newest.start());
  PACELINE_RETURN_IF_ERROR(newest.next().status());
  PACELINE_ASSIGN_OR_RETURN(Statement rows,
                            row_of("other_orders", fmt::format("why, {}, kind", today ? "cause" : "NULL"),
                                   newest.integer(0), "DESC"));
  PACELINE_ASSIGN_OR_RETURN(const bool there, rows.next());
  if (!there || rows.text(2) != "finish") return std::nullopt;
  Row row(rows);
  control::Finish finish{row.text(0), row.cause(1, row.text(0))};
  if (!row.sane()) return absl::DataLossError(fmt::format("{}: damaged: how it finished", path_.string()));
  return finish;
}

absl::Status JournalReader::facts(const std::function<void(const control::Fact&)>& see,
                                  std::int64_t attempt) {
  Picker picker;
  picker.fact = see;
  return read(kFacts, attempt, picker);
}

absl::Status JournalReader::commits(const std::function<void(Time, const control::CommitRecord&)>& see,
                                    std::int64_t attempt) {
  Picker picker;
  picker.commit = see;
  return read(kCommits, attempt, picker);
}

absl::Status JournalReader::evaluations(const std::function<void(const control::Evaluated&)>& see,
                                        std::int64_t attempt) {
  Picker picker;
  picker.evaluation = see;
  return read(kEvaluations, attempt, picker);
}

absl::Status JournalReader::plans(const std::function<void(const control::PlanAdopted&)>& see,
                                  std::int64_t attempt) {
  Picker picker;
  picker.plan = see;
  return read(kPlans, attempt, picker);
}

absl::Status JournalReader::batches(const std::function<void(const control::BatchDone&)>& see,
                                    std::int64_t attempt) {
  Picker picker;
  picker.batch = see;
  return read(kBatches, attempt, picker);
}

absl::Status JournalReader::short_memory(control::RunListener& listener, std::int64_t attempt) {
  return read(kShortMemory | kPlans, attempt, listener);
}

absl::Status JournalReader::read(unsigned tables, std::int64_t attempt, control::RunListener& listener) {
  std::int64_t from_the_start = Which{}.after;
  return read_after(tables, attempt, from_the_start, texts_, listener);
}

absl::Status JournalReader::read_after(unsigned tables, std::int64_t attempt, std::int64_t& after,
                                       Texts& texts, control::RunListener& listener) {
  std::int64_t all = std::numeric_limits<std::int64_t>::max();
  return read_some(tables, attempt, after, all, texts, listener);
}

absl::Status JournalReader::read_some(unsigned tables, std::int64_t attempt, std::int64_t& after,
                                      std::int64_t& left, Texts& texts, control::RunListener& listener) {
  // One transaction, so that all tables are seen as of the same instant.
  PACELINE_RETURN_IF_ERROR(database_.execute("BEGIN"));
  absl::Status status = merge(tables, attempt, after, left, texts, listener);
  database_.execute("ROLLBACK").IgnoreError();
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::DataLossError(fmt::format("{}: {}; move it away, the checkpoints do not need it",
                                         path_.string(), std::string(status.message())));
}

absl::Status JournalReader::merge(unsigned tables, std::int64_t attempt, std::int64_t& after,
                                  std::int64_t& left, Texts& texts, control::RunListener& listener) {
  std::vector<std::unique_ptr<Events>> open;
  const auto add = [&](Table table, auto make) -> absl::Status {
    if ((tables & table) == 0) return absl::OkStatus();
    PACELINE_ASSIGN_OR_RETURN(auto events, make(database_, Which{attempt, after}, texts));
    open.push_back(std::move(events));
    return absl::OkStatus();
  };
  PACELINE_RETURN_IF_ERROR(add(kFacts, read_facts));
  PACELINE_RETURN_IF_ERROR(add(kShortMemory, read_short_memory));
  PACELINE_RETURN_IF_ERROR(add(kCommits, read_commits));
  PACELINE_RETURN_IF_ERROR(add(kReleases, read_releases));
  PACELINE_RETURN_IF_ERROR(add(kOtherOrders, read_other_orders));
  PACELINE_RETURN_IF_ERROR(add(kEvaluations, read_evaluations));
  PACELINE_RETURN_IF_ERROR(add(kPlans, read_plans));
  PACELINE_RETURN_IF_ERROR(add(kBatches, read_batches));
  PACELINE_ASSIGN_OR_RETURN(const bool today, is_of_today(database_));
  if (today) PACELINE_RETURN_IF_ERROR(add(kSideWork, read_side_work));
  PACELINE_RETURN_IF_ERROR(advance_all(open));
  for (; left > 0; --left) {
    const auto first = std::min_element(open.begin(), open.end(),
                                        [](const auto& a, const auto& b) { return a->seq() < b->seq(); });
    if ((*first)->seq() == Events::kEnd) return absl::OkStatus();
    PACELINE_RETURN_IF_ERROR((*first)->tell(listener));
    after = (*first)->seq();
    PACELINE_RETURN_IF_ERROR((*first)->advance());
  }
  return absl::OkStatus();
}

}  // namespace paceline::store
