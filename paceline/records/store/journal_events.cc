#include "paceline/records/store/journal_events.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/attempt_range.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/journal_row.h"
#include "paceline/records/store/journal_schema.h"
#include "paceline/records/store/plan_json.h"

namespace paceline::store {

namespace {

constexpr const char* kOfAttempt = "?1 IN (0, attempt)";
// A condition for which there is an index.
constexpr const char* kOfShortMemory = "attempt = ?1 AND kind = 'device_out_of_memory'";

absl::Status no_event(const char* what, std::int64_t seq) {
  return absl::InvalidArgumentError(fmt::format("damaged: event {} is not a {}", seq, what));
}

// Columns: 0 seq, 1 at_ns, 2 kind, 3 replica, 4 name, 5 batch, 6 clock, 7 base, 8 compute_ns, 9 loss, 10 why,
// 11 metrics, 12 planning, 13 loading_ns, 14 pulling_ns, 15 cause.
class Facts final : public Events {
 public:
  using Events::Events;
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, kind, replica, name, batch, clock, base, compute_ns, loss, why, metrics, "
      "planning, loading_ns, pulling_ns, cause FROM facts";
  static constexpr const char* kQueryOfBefore =
      "SELECT seq, at_ns, kind, replica, name, batch, clock, base, compute_ns, loss, why, metrics, "
      "planning, NULL, NULL, NULL FROM facts";

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    control::Fact fact{row.time(1), {}};
    const bool known = decode(row, fact);
    if (!known || !row.sane()) return no_event("fact", seq());
    if (!row.is_null(12) && !add_planning(row.text(12), fact).ok()) return no_event("fact", seq());
    listener.on_fact(fact);
    return absl::OkStatus();
  }

 private:
  static bool decode(Row& row, control::Fact& fact) {
    const std::string kind = row.text(2);
    if (kind == "joined") {
      fact.what = control::ReplicaJoined{row.replica(3), row.text(4), row.whole(5)};
    } else if (kind == "left") {
      fact.what = control::ReplicaLeft{row.replica(3), row.text(10)};
    } else if (kind == "ready") {
      fact.what = control::ReplicaReady{
          row.replica(3),  row.clock(6), row.version(7), Duration(row.whole(8)), row.real(9),
          row.metrics(11), {},           part(row, 13),  part(row, 14)};
    } else if (kind == "timer") {
      fact.what = control::TimerRang{};
    } else if (kind == "complete") {
      fact.what = control::CommitComplete{row.version(7)};
    } else if (kind == "stop") {
      fact.what = control::StopAsked{row.text(10), row.cause(15, row.text(10))};
    } else if (kind == "device_joined") {
      fact.what = control::DeviceJoined{};
    } else if (kind == "device_left") {
      fact.what = control::DeviceLeft{};
    } else if (kind == "device_out_of_memory") {
      fact.what = control::DeviceOutOfMemory{};
    } else if (kind == "link_measured") {
      fact.what = control::LinkMeasured{};
    } else if (kind == "plan_searched") {
      fact.what = control::PlanSearched{};
    } else {
      return false;
    }
    return true;
  }

  // A part of an iteration's time; a journal of the previous format does not have it.
  static Duration part(Row& row, int column) {
    return row.is_null(column) ? Duration::zero() : Duration(row.whole(column));
  }
};

// Columns: 0 seq, 1 at_ns, 2 version, 3 samples, 4 committed_before, 5 nominal, 6 fraction, 7 of_differences,
// 8 learning_rate, 9 evaluate, 10 checkpoint, 11 why, 12 why_a, 13 why_b.
class Commits final : public Events {
 public:
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, version, samples, committed_before, nominal, fraction, of_differences, "
      "learning_rate, evaluate, checkpoint, "
      "why, why_a, why_b FROM commits";
  static constexpr const char* kMembers =
      R"(SELECT m.replica, clock, base, epoch, m."begin", m."end", weight, share, s."begin", s."end" FROM members AS m )"
      "LEFT JOIN scraps AS s ON s.seq = m.seq AND s.replica = m.replica WHERE m.seq = ? ORDER BY m.replica";
  static constexpr const char* kMembersWithoutScraps =
      R"(SELECT replica, clock, base, epoch, "begin", "end", weight, share, NULL, NULL FROM members WHERE seq = ? )"
      "ORDER BY replica";

  Commits(Statement rows, Statement members, Texts& texts)
      : Events(std::move(rows)), members_(std::move(members)), texts_(texts) {}

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    control::CommitRecord commit;
    commit.version = row.version(2);
    commit.samples = row.whole(3);
    commit.committed_before = row.whole(4);
    commit.nominal = row.whole(5);
    commit.fraction = row.real(6);
    commit.of_differences = row.whole(7) != 0;
    commit.learning_rate = row.real(8);
    commit.keep_for_evaluation = row.whole(9) != 0;
    commit.why = row.reason(11, texts_);
    const Time at = row.time(1);
    if (!row.sane() || !read_checkpoint(row, commit)) return no_event("commit", seq());
    PACELINE_RETURN_IF_ERROR(read_members(commit));
    listener.on_order(at, commit);
    return absl::OkStatus();
  }

 private:
  static bool read_checkpoint(const Row& row, control::CommitRecord& commit) {
    if (row.is_null(10)) return true;
    auto state = controller_state_from_text(row.text(10));
    if (state.ok()) commit.checkpoint = *std::move(state);
    return state.ok();
  }

  absl::Status read_members(control::CommitRecord& commit) {
    PACELINE_RETURN_IF_ERROR(members_.start(seq()));
    while (true) {
      PACELINE_ASSIGN_OR_RETURN(const bool there, members_.next());
      if (!there) return absl::OkStatus();
      Row row(members_);
      commit.members.push_back(
          {row.replica(0), row.clock(1), row.version(2), row.lease(3, 8), row.real(6), row.real(7)});
      if (!row.sane()) return no_event("commit", seq());
    }
  }

  Statement members_;
  Texts& texts_;
};

// Columns: 0 seq, 1 at_ns, 2 replica, 3 clock, 4 version, 5 epoch, 6 begin, 7 end, 8 learning_rate, 9
// staleness, 10 fraction, 11 steps, 12 why, 13 why_a, 14 why_b, 15 begin and 16 end of the scrap.
class Releases final : public Events {
 public:
  static constexpr const char* kQuery =
      R"(SELECT seq, at_ns, replica, clock, version, epoch, "begin", "end", learning_rate, staleness, fraction, steps, )"
      R"(why, why_a, why_b, (SELECT "begin" FROM scraps AS s WHERE s.seq = releases.seq), )"
      R"((SELECT "end" FROM scraps AS s WHERE s.seq = releases.seq) FROM releases)";
  static constexpr const char* kQueryWithoutScraps =
      R"(SELECT seq, at_ns, replica, clock, version, epoch, "begin", "end", learning_rate, staleness, fraction, steps, )"
      "why, why_a, why_b, NULL, NULL FROM releases";

  Releases(Statement rows, Texts& texts) : Events(std::move(rows)), texts_(texts) {}

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    const Time at = row.time(1);
    const control::Release release{row.replica(2),   row.clock(3),           row.version(4),
                                   row.lease(5, 15), row.reason(12, texts_), row.real(8),
                                   row.real(9),      row.real(10),           row.whole(11)};
    if (!row.sane()) return no_event("release", seq());
    listener.on_order(at, release);
    return absl::OkStatus();
  }

 private:
  Texts& texts_;
};

// Columns: 0 seq, 1 at_ns, 2 kind, 3 replica, 4 clock, 5 wake_ns, 6 why, 7 why_a, 8 why_b, 9 cause.
class OtherOrders final : public Events {
 public:
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, kind, replica, clock, wake_ns, why, why_a, why_b, cause FROM other_orders";
  static constexpr const char* kQueryOfBefore =
      "SELECT seq, at_ns, kind, replica, clock, wake_ns, why, why_a, why_b, NULL FROM other_orders";

  OtherOrders(Statement rows, Texts& texts) : Events(std::move(rows)), texts_(texts) {}

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    const Time at = row.time(1);
    const std::optional<control::Order> order = decode(row);
    if (!order || !row.sane()) return no_event("order", seq());
    listener.on_order(at, *order);
    return absl::OkStatus();
  }

 private:
  std::optional<control::Order> decode(Row& row) {
    const std::string kind = row.text(2);
    if (kind == "discard") return control::Discard{row.replica(3), row.clock(4), row.reason(6, texts_)};
    if (kind == "park") return control::Park{row.replica(3)};
    if (kind == "wake") return control::WakeAt{row.time(5)};
    if (kind == "finish") return control::Finish{row.text(6), row.cause(9, row.text(6))};
    if (kind == "search") return control::SearchPlan{};
    if (kind == "no_plan") return control::NoPlan{row.text(6)};
    return std::nullopt;
  }

  Texts& texts_;
};

// Columns: 0 seq, 1 at_ns, 2 version, 3 samples, 4 loss, 5 accuracy, 6 metrics.
class Evaluations final : public Events {
 public:
  using Events::Events;
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, version, samples, loss, accuracy, metrics FROM evaluations";

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    const control::Evaluated evaluated{row.time(1), row.version(2), row.whole(3),
                                       row.real(4), row.real(5),    row.metrics(6)};
    if (!row.sane()) return no_event("evaluation", seq());
    listener.on_evaluated(evaluated);
    return absl::OkStatus();
  }
};

// Columns: 0 seq, 1 at_ns, 2 kind, 3 version, 4 took_ns, 5 server, 6 bytes, 7 threads, 8 members.
class SideWorks final : public Events {
 public:
  using Events::Events;
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, kind, version, took_ns, server, bytes, threads, members FROM side_work";

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    const auto kind = std::find(kSideWorkKinds.begin(), kSideWorkKinds.end(), row.text(2));
    const control::SideWork work{
        row.time(1),    static_cast<control::SideWork::Kind>(kind - kSideWorkKinds.begin()),
        row.version(3), Duration(row.whole(4)),
        row.whole32(5), row.whole(6),
        row.whole32(7), row.whole(8)};
    if (kind == kSideWorkKinds.end() || !row.sane()) return no_event("work", seq());
    listener.on_side_work(work);
    return absl::OkStatus();
  }
};

// Columns: 0 seq, 1 at_ns, 2 plan, 3 predicted_ms, 4 why.
class Plans final : public Events {
 public:
  using Events::Events;
  static constexpr const char* kQuery = "SELECT seq, at_ns, plan, predicted_ms, why FROM plans";

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    auto plan = plan_from_text(row.text(2));
    if (!plan.ok()) return no_event("plan", seq());
    const control::PlanAdopted adopted{row.time(1), *std::move(plan), row.real(3), row.text(4)};
    if (!row.sane()) return no_event("plan", seq());
    listener.on_order(adopted.at, adopted);
    return absl::OkStatus();
  }
};

// Columns: 0 seq, 1 at_ns, 2 predicted_ms, 3 measured_ms, 4 regular, 5 work, 6 cost, 7 allowed, 8 queue.
class Batches final : public Events {
 public:
  using Events::Events;
  static constexpr const char* kQuery =
      "SELECT seq, at_ns, predicted_ms, measured_ms, regular, work, cost, allowed, queue FROM batches";

  absl::Status tell(control::RunListener& listener) override {
    Row row(rows_);
    auto work = work_from_text(row.text(5));
    if (!work.ok()) return no_event("batch", seq());
    control::BatchDone batch{row.time(1), row.real(2), row.real(3), row.whole(4) != 0, *std::move(work)};
    if (!row.is_null(6)) batch.spending = control::Spending{row.real(6), row.real(7), row.real(8)};
    if (!row.sane()) return no_event("batch", seq());
    listener.on_order(batch.at, batch);
    return absl::OkStatus();
  }
};

absl::StatusOr<Statement> query(const Database& database, std::string_view table, std::string_view select,
                                Which which, std::string_view condition = kOfAttempt) {
  PACELINE_ASSIGN_OR_RETURN(const SeqRange range, range_of_attempt(database, table, which.attempt));
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows, database.prepare(fmt::format("{} WHERE {} AND seq >= ?2 AND seq < ?3 ORDER BY seq",
                                                   select, condition)));
  PACELINE_RETURN_IF_ERROR(rows.start(which.attempt, std::max(which.after + 1, range.first), range.end));
  return rows;
}

absl::StatusOr<std::unique_ptr<Events>> read_facts_that(const Database& database, Which which,
                                                        std::string_view condition) {
  PACELINE_ASSIGN_OR_RETURN(const bool today, is_of_today(database));
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      query(database, "facts", today ? Facts::kQuery : Facts::kQueryOfBefore, which, condition));
  return std::make_unique<Facts>(std::move(rows));
}

}  // namespace

absl::Status Events::advance() {
  PACELINE_ASSIGN_OR_RETURN(const bool row, rows_.next());
  seq_ = row ? rows_.integer(0) : kEnd;
  return absl::OkStatus();
}

EventsOr read_facts(const Database& database, Which which, Texts&) {
  return read_facts_that(database, which, kOfAttempt);
}

EventsOr read_short_memory(const Database& database, Which which, Texts&) {
  return read_facts_that(database, which, kOfShortMemory);
}

EventsOr read_commits(const Database& database, Which which, Texts& texts) {
  PACELINE_ASSIGN_OR_RETURN(Statement rows, query(database, "commits", Commits::kQuery, which));
  PACELINE_ASSIGN_OR_RETURN(const bool scraps, has_scraps(database));
  PACELINE_ASSIGN_OR_RETURN(Statement members,
                            database.prepare(scraps ? Commits::kMembers : Commits::kMembersWithoutScraps));
  return std::make_unique<Commits>(std::move(rows), std::move(members), texts);
}

EventsOr read_releases(const Database& database, Which which, Texts& texts) {
  PACELINE_ASSIGN_OR_RETURN(const bool scraps, has_scraps(database));
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      query(database, "releases", scraps ? Releases::kQuery : Releases::kQueryWithoutScraps, which));
  return std::make_unique<Releases>(std::move(rows), texts);
}

EventsOr read_other_orders(const Database& database, Which which, Texts& texts) {
  PACELINE_ASSIGN_OR_RETURN(const bool today, is_of_today(database));
  PACELINE_ASSIGN_OR_RETURN(
      Statement rows,
      query(database, "other_orders", today ? OtherOrders::kQuery : OtherOrders::kQueryOfBefore, which));
  return std::make_unique<OtherOrders>(std::move(rows), texts);
}

EventsOr read_evaluations(const Database& database, Which which, Texts&) {
  PACELINE_ASSIGN_OR_RETURN(Statement rows, query(database, "evaluations", Evaluations::kQuery, which));
  return std::make_unique<Evaluations>(std::move(rows));
}

EventsOr read_side_work(const Database& database, Which which, Texts&) {
  PACELINE_ASSIGN_OR_RETURN(Statement rows, query(database, "side_work", SideWorks::kQuery, which));
  return std::make_unique<SideWorks>(std::move(rows));
}

EventsOr read_plans(const Database& database, Which which, Texts&) {
  PACELINE_ASSIGN_OR_RETURN(Statement rows, query(database, "plans", Plans::kQuery, which));
  return std::make_unique<Plans>(std::move(rows));
}

EventsOr read_batches(const Database& database, Which which, Texts&) {
  PACELINE_ASSIGN_OR_RETURN(Statement rows, query(database, "batches", Batches::kQuery, which));
  return std::make_unique<Batches>(std::move(rows));
}

}  // namespace paceline::store
