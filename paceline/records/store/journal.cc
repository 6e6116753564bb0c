#include "paceline/records/store/journal.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/finish_cause.h"
#include "paceline/records/store/journal_schema.h"
#include "paceline/records/store/metrics_json.h"
#include "paceline/records/store/plan_json.h"

namespace paceline::store {

using namespace std::string_view_literals;
using std::string_view;

namespace {

constexpr const char* kLastSeq = R"sql(
SELECT max(0, ifnull((SELECT max(seq) FROM facts), 0), ifnull((SELECT max(seq) FROM commits), 0),
              ifnull((SELECT max(seq) FROM releases), 0), ifnull((SELECT max(seq) FROM other_orders), 0),
              ifnull((SELECT max(seq) FROM evaluations), 0), ifnull((SELECT max(seq) FROM plans), 0),
              ifnull((SELECT max(seq) FROM batches), 0), ifnull((SELECT max(seq) FROM side_work), 0)))sql";

std::int64_t ns(Time at) { return at.time_since_epoch().count(); }
std::int64_t ns(Duration time) { return time.count(); }
std::int64_t number(ReplicaId replica) { return replica.value(); }

absl::StatusOr<std::int64_t> ask(const Database& database, const std::string& query) {
  PACELINE_ASSIGN_OR_RETURN(Statement statement, database.prepare(query));
  PACELINE_RETURN_IF_ERROR(statement.start());
  PACELINE_RETURN_IF_ERROR(statement.next().status());
  return statement.integer(0);
}

absl::StatusOr<Statement> insert_into(const Database& database, const std::string& table, int columns) {
  std::string places = "?";
  for (int column = 1; column < columns; ++column) places += ",?";
  return database.prepare(fmt::format("INSERT INTO {} VALUES({})", table, places));
}

absl::StatusOr<std::optional<NewestCommit>> newest_commit(const Database& database) {
  PACELINE_ASSIGN_OR_RETURN(Statement query,
                            database.prepare("SELECT attempt, version FROM commits ORDER BY seq "
                                             "DESC LIMIT 1"));
  PACELINE_RETURN_IF_ERROR(query.start());
  PACELINE_ASSIGN_OR_RETURN(const bool found, query.next());
  if (!found) return std::nullopt;
  NewestCommit newest{query.integer(0), Version(query.integer(1))};
  PACELINE_ASSIGN_OR_RETURN(
      Statement later,
      database.prepare("SELECT ifnull(max(from_version), 0) FROM attempts WHERE attempt > ?"));
  PACELINE_RETURN_IF_ERROR(later.start(newest.attempt));
  PACELINE_RETURN_IF_ERROR(later.next().status());
  newest.followed_from = Version(later.integer(0));
  return newest;
}

absl::StatusOr<std::int64_t> begin_attempt(const Database& database, Version from, std::int64_t last_seq) {
  PACELINE_ASSIGN_OR_RETURN(Statement insert, database.prepare("INSERT INTO attempts VALUES(NULL, ?)"));
  PACELINE_RETURN_IF_ERROR(insert.run(from.value()));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t attempt, ask(database, "SELECT max(attempt) FROM attempts"));
  PACELINE_ASSIGN_OR_RETURN(Statement first,
                            database.prepare("INSERT OR REPLACE INTO first_events VALUES(?, ?)"));
  PACELINE_RETURN_IF_ERROR(first.run(attempt, last_seq + 1));
  return attempt;
}

absl::Status bear(const Database& database, PowerLoss power_loss) {
  return database.execute(power_loss == PowerLoss::kNothing ? "PRAGMA synchronous = FULL"
                                                            : "PRAGMA synchronous = NORMAL");
}

// The columns of a row of facts. Those that its kind does not have are NULL.
struct FactColumns {
  std::string_view kind;
  std::optional<std::int64_t> replica{};
  std::optional<std::string> name{};
  std::optional<std::int64_t> batch{}, clock{}, base{}, compute_ns{};
  std::optional<double> loss{};
  std::optional<std::string> why{}, metrics{};
  std::optional<std::int64_t> loading_ns{}, pulling_ns{};
  std::optional<std::string> cause{};
};

FactColumns columns_of(const control::Fact& fact) {
  return std::visit(
      Overloaded{
          [](const control::ReplicaJoined& joined) {
            return FactColumns{.kind = "joined",
                               .replica = number(joined.replica),
                               .name = joined.name,
                               .batch = joined.batch};
          },
          [](const control::ReplicaLeft& left) {
            return FactColumns{.kind = "left", .replica = number(left.replica), .why = left.why};
          },
          [](const control::ReplicaReady& ready) {
            return FactColumns{.kind = "ready",
                               .replica = number(ready.replica),
                               .clock = ready.clock.value(),
                               .base = ready.base.value(),
                               .compute_ns = ns(ready.compute),
                               .loss = ready.loss,
                               .metrics = to_text(ready.metrics),
                               .loading_ns = ns(ready.loading),
                               .pulling_ns = ns(ready.pulling)};
          },
          [](const control::TimerRang&) { return FactColumns{.kind = "timer"}; },
          [](const control::CommitComplete& complete) {
            return FactColumns{.kind = "complete", .base = complete.version.value()};
          },
          [](const control::StopAsked& stop) {
            return FactColumns{.kind = "stop", .why = stop.why, .cause = to_text(stop.cause)};
          },
          [](const control::DeviceJoined&) { return FactColumns{.kind = "device_joined"}; },
          [](const control::DeviceLeft&) { return FactColumns{.kind = "device_left"}; },
          [](const control::DeviceOutOfMemory&) { return FactColumns{.kind = "device_out_of_memory"}; },
          [](const control::LinkMeasured&) { return FactColumns{.kind = "link_measured"}; },
          [](const control::PlanSearched&) { return FactColumns{.kind = "plan_searched"}; },
      },
      fact.what);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path& path, Version from,
                                                       PowerLoss power_loss, bool logs) {
  PACELINE_ASSIGN_OR_RETURN(Database database, Database::open(path, Database::Mode::kWrite));
  PACELINE_RETURN_IF_ERROR(make_tables_if_empty(database));
  PACELINE_RETURN_IF_ERROR(check_is_journal(database, path));
  PACELINE_RETURN_IF_ERROR(bring_up_to_date(database));
  PACELINE_RETURN_IF_ERROR(database.execute("PRAGMA journal_mode = WAL"));
  PACELINE_RETURN_IF_ERROR(bear(database, power_loss));
  if (logs) database.log_changes();
  PACELINE_ASSIGN_OR_RETURN(Statement fact, insert_into(database, "facts", 17));
  PACELINE_ASSIGN_OR_RETURN(Statement commit, insert_into(database, "commits", 15));
  PACELINE_ASSIGN_OR_RETURN(Statement member, insert_into(database, "members", 10));
  PACELINE_ASSIGN_OR_RETURN(Statement release, insert_into(database, "releases", 16));
  PACELINE_ASSIGN_OR_RETURN(Statement scrap, insert_into(database, "scraps", 4));
  PACELINE_ASSIGN_OR_RETURN(Statement other, insert_into(database, "other_orders", 11));
  PACELINE_ASSIGN_OR_RETURN(Statement evaluation, insert_into(database, "evaluations", 8));
  PACELINE_ASSIGN_OR_RETURN(Statement plan, insert_into(database, "plans", 6));
  PACELINE_ASSIGN_OR_RETURN(Statement batch, insert_into(database, "batches", 10));
  PACELINE_ASSIGN_OR_RETURN(Statement side_work, insert_into(database, "side_work", 10));
  PACELINE_ASSIGN_OR_RETURN(Statement shard_length,
                            database.prepare("INSERT OR REPLACE INTO shard_lengths VALUES(?,?,?)"));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t last_seq, ask(database, kLastSeq));
  PACELINE_ASSIGN_OR_RETURN(const auto before, newest_commit(database));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t attempt, begin_attempt(database, from, last_seq));
  Inserts inserts{std::move(fact),  std::move(commit),    std::move(member),      std::move(release),
                  std::move(scrap), std::move(other),     std::move(evaluation),  std::move(plan),
                  std::move(batch), std::move(side_work), std::move(shard_length)};
  PACELINE_ASSIGN_OR_RETURN(ProcessTable processes, ProcessTable::open(database));
  return std::unique_ptr<Journal>(new Journal(std::move(database), std::move(inserts), std::move(processes),
                                              attempt, last_seq, before, power_loss));
}

Journal::Journal(Database database, Inserts inserts, ProcessTable processes, std::int64_t attempt,
                 std::int64_t last_seq, std::optional<NewestCommit> before, PowerLoss power_loss)
    : database_(std::move(database)),
      inserts_(std::move(inserts)),
      processes_(std::move(processes)),
      attempt_(attempt),
      before_(before),
      power_loss_(power_loss),
      last_seq_(last_seq) {}

Journal::~Journal() {
  if (!flush().ok()) return;
  // If another process is reading, SQLite leaves two files instead of one, which is as good.
  database_.set_patience_ms(0);
  database_.execute("PRAGMA journal_mode = DELETE").IgnoreError();
}

absl::Status Journal::go_on_from(Version version) {
  PACELINE_RETURN_IF_ERROR(flush());
  PACELINE_ASSIGN_OR_RETURN(Statement update,
                            database_.prepare("UPDATE attempts SET from_version = ? WHERE attempt > "
                                              "(SELECT attempt FROM commits ORDER BY seq DESC LIMIT 1)"));
  return update.run(version.value());
}

absl::StatusOr<std::optional<std::string>> Journal::get(const std::string& key) const {
  PACELINE_ASSIGN_OR_RETURN(Statement query, database_.prepare("SELECT value FROM run WHERE key = ?"));
  PACELINE_RETURN_IF_ERROR(query.start(string_view(key)));
  PACELINE_ASSIGN_OR_RETURN(const bool found, query.next());
  if (!found) return std::nullopt;
  return query.text(0);
}

absl::Status Journal::set(const std::string& key, const std::string& value) {
  PACELINE_RETURN_IF_ERROR(flush());
  PACELINE_ASSIGN_OR_RETURN(Statement insert, database_.prepare("INSERT OR REPLACE INTO run VALUES(?, ?)"));
  return insert.run(string_view(key), string_view(value));
}

// A commit of SQLite that waits for the disk makes all of the log before it durable.
absl::Status Journal::outlasting(const std::function<absl::Status()>& last) {
  PACELINE_RETURN_IF_ERROR(flush());
  PACELINE_RETURN_IF_ERROR(bear(database_, PowerLoss::kNothing));
  absl::Status status = last();
  status.Update(bear(database_, power_loss_));
  return status;
}

template <class Insert>
void Journal::record(Insert insert) {
  if (first_error_.ok()) first_error_ = begin_batch();
  if (first_error_.ok()) first_error_ = insert(++last_seq_);
}

absl::Status Journal::begin_batch() {
  if (in_batch_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(database_.execute("BEGIN IMMEDIATE"));
  in_batch_ = true;
  return absl::OkStatus();
}

absl::Status Journal::flush() {
  if (!in_batch_) return first_error_;
  in_batch_ = false;
  if (first_error_.ok()) first_error_ = database_.execute("COMMIT");
  // Part of an event may be written. SQLite may have rolled it back already; then this does nothing.
  if (!first_error_.ok()) database_.execute("ROLLBACK").IgnoreError();
  return first_error_;
}

void Journal::on_fact(const control::Fact& fact) {
  record([&](std::int64_t seq) {
    const FactColumns of = columns_of(fact);
    return inserts_.fact.run(seq, attempt_, ns(fact.at), of.kind, of.replica, of.name, of.batch, of.clock,
                             of.base, of.compute_ns, of.loss, of.why, of.metrics, planning_of(fact),
                             of.loading_ns, of.pulling_ns, of.cause);
  });
}

void Journal::on_order(Time at, const control::Order& order) {
  record([&](std::int64_t seq) { return insert(seq, at, order); });
}

void Journal::on_evaluated(const control::Evaluated& evaluated) {
  record([&](std::int64_t seq) {
    return inserts_.evaluation.run(seq, attempt_, ns(evaluated.at), evaluated.version.value(),
                                   evaluated.samples, evaluated.loss, evaluated.accuracy,
                                   to_text(evaluated.metrics));
  });
}

void Journal::on_side_work(const control::SideWork& work) {
  record([&](std::int64_t seq) {
    return inserts_.side_work.run(
        seq, attempt_, ns(work.at), kSideWorkKinds[static_cast<std::size_t>(work.kind)], work.version.value(),
        ns(work.took), std::int64_t{work.server}, work.bytes, std::int64_t{work.threads}, work.members);
  });
}

void Journal::note_process(const control::ProcessReport& report) {
  if (first_error_.ok()) first_error_ = begin_batch();
  if (first_error_.ok()) first_error_ = processes_.note(attempt_, report);
}

void Journal::note_shard_lengths(const std::vector<coordinator::ShardRecords>& lengths) {
  if (first_error_.ok()) first_error_ = begin_batch();
  for (const coordinator::ShardRecords& one : lengths) {
    if (first_error_.ok())
      first_error_ = inserts_.shard_length.run(std::int64_t{one.shard}, attempt_, one.records);
  }
}

absl::Status Journal::insert_batch(std::int64_t seq, const control::BatchDone& batch) {
  const auto insert = [&](const auto&... spending) {
    return inserts_.batch.run(seq, attempt_, ns(batch.at), batch.predicted_ms, batch.measured_ms,
                              std::int64_t{batch.regular}, string_view(to_text(batch.work)), spending...);
  };
  if (!batch.spending) return insert(nullptr, nullptr, nullptr);
  return insert(batch.spending->cost, batch.spending->allowed, batch.spending->queue);
}

absl::Status Journal::insert(std::int64_t seq, Time at, const control::Order& order) {
  constexpr auto none = nullptr;
  const auto other = [&](const auto&... columns) {
    return inserts_.other.run(seq, attempt_, ns(at), columns..., nullptr);
  };
  return std::visit(
      Overloaded{
          [&](const control::CommitRecord& commit) { return insert_commit(seq, at, commit); },
          [&](const control::Release& release) {
            const Lease& lease = release.lease;
            PACELINE_RETURN_IF_ERROR(insert_scrap(seq, release.replica, lease));
            return inserts_.release.run(seq, attempt_, ns(at), number(release.replica), release.clock.value(),
                                        release.version.value(), std::int64_t{lease.epoch}, lease.begin,
                                        lease.end, release.learning_rate, release.staleness, release.fraction,
                                        release.steps, release.why.text, release.why.a, release.why.b);
          },
          [&](const control::Discard& discard) {
            return other("discard"sv, number(discard.replica), discard.clock.value(), none, discard.why.text,
                         discard.why.a, discard.why.b);
          },
          [&](const control::Park& park) {
            return other("park"sv, number(park.replica), none, none, none, none, none);
          },
          [&](const control::WakeAt& wake) {
            return other("wake"sv, none, none, ns(wake.at), none, none, none);
          },
          [&](const control::Finish& finish) {
            return inserts_.other.run(seq, attempt_, ns(at), "finish"sv, none, none, none,
                                      string_view(finish.why), none, none, to_text(finish.cause));
          },
          [&](const control::SearchPlan&) { return other("search"sv, none, none, none, none, none, none); },
          [&](const control::NoPlan& no) {
            return other("no_plan"sv, none, none, none, string_view(no.why), none, none);
          },
          [&](const control::PlanAdopted& adopted) {
            return inserts_.plan.run(seq, attempt_, ns(adopted.at), string_view(to_text(adopted.plan)),
                                     adopted.predicted_ms, string_view(adopted.why));
          },
          [&](const control::BatchDone& batch) { return insert_batch(seq, batch); },
      },
      order);
}

absl::Status Journal::insert_scrap(std::int64_t seq, ReplicaId replica, const Lease& lease) {
  if (lease.scrap() == 0) return absl::OkStatus();
  return inserts_.scrap.run(seq, number(replica), lease.scrap_begin, lease.scrap_end);
}

absl::Status Journal::insert_commit(std::int64_t seq, Time at, const control::CommitRecord& commit) {
  const auto row = [&](const auto& checkpoint) {
    return inserts_.commit.run(
        seq, attempt_, ns(at), commit.version.value(), commit.samples, commit.committed_before,
        commit.nominal, commit.fraction, std::int64_t{commit.of_differences}, commit.learning_rate,
        std::int64_t{commit.keep_for_evaluation}, checkpoint, commit.why.text, commit.why.a, commit.why.b);
  };
  PACELINE_RETURN_IF_ERROR(commit.checkpoint ? row(string_view(to_text(*commit.checkpoint))) : row(nullptr));
  for (const control::CommitMember& member : commit.members) {
    const Lease& lease = member.lease;
    PACELINE_RETURN_IF_ERROR(insert_scrap(seq, member.replica, lease));
    PACELINE_RETURN_IF_ERROR(inserts_.member.run(
        seq, commit.version.value(), number(member.replica), member.clock.value(), member.base.value(),
        std::int64_t{lease.epoch}, lease.begin, lease.end, member.weight, member.share));
  }
  return absl::OkStatus();
}

}  // namespace paceline::store
