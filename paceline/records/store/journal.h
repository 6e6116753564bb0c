// RUN/journal.sqlite: all facts and all orders of the Controller of a run. The coordinator's host makes it a
// listener of the run and calls flush() a few times a second; one thread. journal_reader.h reads it.
//
// Invariant: the file is a prefix of the run, without a hole. A killed process loses what came after
// the last flush; a machine that loses its power may lose a few flushes more (PowerLoss), but never the file.
// After a first error nothing more is recorded, and status() says why.
//
// A run that is resumed from the checkpoint of version V adds another attempt. The records of an older
// attempt after V stay, because they happened; but its commits are void, and the view kept_commits leaves
// them out.
//
// Tables. `seq` numbers all events of all tables in the order they were recorded. at_ns, wake_ns: nanoseconds
// since the job's first release. `why` with its numbers why_a and why_b is a reason; each "{}" in it takes
// the next number. A loss that is no number is NULL. Ranges [begin, end) are positions in the permutation of
// that epoch.
//   run           key, value: about the whole run (format_version, and what the host sets)
//   attempts      attempt (from 1), from_version (0: from the start)
//   first_events  attempt, seq: its events have numbers from this one on, and below the next attempt's
//   facts         seq, attempt, at_ns, kind, and by kind:
//                 joined: replica, name, batch; left: replica, why; timer; stop: why, cause;
//                 ready: replica, clock, base, compute_ns, loading_ns and pulling_ns (parts of it), loss,
//                 metrics (NULL, or numbers by name as JSON); device_joined; device_left; link_measured;
//                 plan_searched.
//                 planning: NULL, or JSON (plan_json.h)
//   commits       seq, attempt, at_ns, version, samples, committed_before, nominal, fraction,
//                 of_differences (0 or 1), learning_rate, evaluate (0 or 1), checkpoint (NULL, or the state
//                 to save as JSON), why, why_a, why_b
//   members       seq (of the commit), version, replica, clock, base, epoch, begin, end, weight, share
//   releases      seq, attempt, at_ns, replica, clock, version, epoch, begin, end, learning_rate, staleness,
//                 fraction, steps, why, why_a, why_b
//   scraps        seq (of a commit or a release), replica, begin, end: of those leases that have a scrap
//   other_orders  seq, attempt, at_ns, kind, and by kind: discard: replica, clock, why, why_a, why_b;
//                 park: replica; wake: wake_ns; finish: why, cause; search; no_plan: why
//   evaluations   seq, attempt, at_ns, version, samples, loss, accuracy, metrics (the same)
//   side_work     seq, attempt, at_ns (its end), kind (update, evaluation, checkpoint), version, took_ns;
//                 of an update: server, bytes, threads, members, else 0
//   processes     process, attempt, at_ns, resident_bytes: what each said last
//   traffic       process, peer, kind, attempt, at_ns, bytes (sent since the run began): the same
//   shard_lengths shard (its number), attempt, records: of a stream's shards that were read to their ends
//   plans         seq, attempt, at_ns, plan (JSON: plan_json.h), predicted_ms, why: from then on in use
//   batches       seq, attempt, at_ns, predicted_ms, measured_ms, regular (0 or 1), work (JSON, too): of
//                 planned runs; at_ns is the end
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/decisions/control/run_listener.h"
#include "paceline/decisions/coordinator/shard_lengths.h"
#include "paceline/records/store/process_table.h"
#include "paceline/records/store/sqlite.h"

namespace paceline::store {

// The newest commit that a journal has, and its attempt.
struct NewestCommit {
  std::int64_t attempt;
  Version version;
  Version followed_from{};  // the newest version from which a later attempt began; 0 if none did
};

// The records that a loss of power may take: with kFewFlushes flush() does not wait for the disk (SQLite's
// synchronous = NORMAL, with a write-ahead log), with kNothing it does (FULL).
enum class PowerLoss { kFewFlushes, kNothing };

class Journal final : public control::RunListener {
 public:
  // Makes the file, or continues it with another attempt. `from`: the version resumed from; 0 for a new run.
  // `logs`: keep a log of the changes, for a JournalCopy. Errors: DataLoss if the file is damaged;
  // Unavailable if another process has it locked.
  static absl::StatusOr<std::unique_ptr<Journal>> open(const std::filesystem::path& path, Version from,
                                                       PowerLoss power_loss = PowerLoss::kFewFlushes,
                                                       bool logs = false);
  // Flushes, and leaves a single file that can be copied, and read even in a folder that is not writable.
  ~Journal() override;

  std::int64_t attempt() const { return attempt_; }

  // Takes the log of the changes since the journal was opened or this was called last. Requires: it keeps a
  // log; flushed, so that the log has whole transactions.
  std::string take_log() { return database_.log()->take(); }

  // The newest commit before this attempt; nothing if no attempt committed anything.
  const std::optional<NewestCommit>& before() const { return before_; }
  // Notes that this attempt, and all before it that committed nothing, go on from that version instead.
  absl::Status go_on_from(Version version);

  // The value of `key`; nothing if there is none.
  absl::StatusOr<std::optional<std::string>> get(const std::string& key) const;
  // Puts a fact about the whole run on disk, in place of the key's old value.
  absl::Status set(const std::string& key, const std::string& value);
  // Makes everything that `last` sets, or that was recorded before, outlast a loss of power.
  absl::Status outlasting(const std::function<absl::Status()>& last);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // Records a process's report of itself, in place of its earlier one.
  void note_process(const control::ProcessReport& report);

  // Records lengths of shards, in place of an earlier attempt's.
  void note_shard_lengths(const std::vector<coordinator::ShardRecords>& lengths);

  // Writes what was recorded since the last flush, in one transaction.
  absl::Status flush();
  // The first error of any call.
  const absl::Status& status() const { return first_error_; }

 private:
  struct Inserts {
    Statement fact, commit, member, release, scrap, other, evaluation, plan, batch, side_work, shard_length;
  };
  Journal(Database database, Inserts inserts, ProcessTable processes, std::int64_t attempt,
          std::int64_t last_seq, std::optional<NewestCommit> before, PowerLoss power_loss);

  template <class Insert>
  void record(Insert insert);
  absl::Status begin_batch();
  absl::Status insert(std::int64_t seq, Time at, const control::Order& order);
  absl::Status insert_batch(std::int64_t seq, const control::BatchDone& batch);
  absl::Status insert_scrap(std::int64_t seq, ReplicaId replica, const Lease& lease);
  absl::Status insert_commit(std::int64_t seq, Time at, const control::CommitRecord& commit);

  Database database_;  // before its statements, which must be destroyed first
  Inserts inserts_;
  ProcessTable processes_;
  const std::int64_t attempt_;
  const std::optional<NewestCommit> before_;
  const PowerLoss power_loss_;
  std::int64_t last_seq_;
  bool in_batch_ = false;
  absl::Status first_error_;
};

}  // namespace paceline::store
