#include "paceline/processes/coordinator_process/run_keeping.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/rpc/local_socket.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::coordinator_process {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMostText = 64 << 20;
constexpr std::size_t kOthers = 64 << 10;  // bytes of the rest of the first message

std::string text_if_there(const fs::path& file) { return store::read_file(file, kMostText).value_or(""); }

// A keeper that lacks no more than this many batches of changes catches up at once.
constexpr std::int64_t kNearlyAll = 100;

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", std::chrono::duration<double>(time).count());
}

class PassingFile {
 public:
  explicit PassingFile(fs::path path) : path_(std::move(path)) {}
  PassingFile(const PassingFile&) = delete;
  PassingFile& operator=(const PassingFile&) = delete;
  ~PassingFile() { ::unlink(path_.c_str()); }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

}  // namespace

RunKeeping::RunKeeping(Options options) : options_(std::move(options)) {}

void RunKeeping::look() {
  if (!options_.keeper) return;
  std::string log = options_.take_log();
  const std::lock_guard lock(mutex_);
  if (!connected()) return;
  if (!keeper_->begun) return begin();
  if (!log.empty()) {
    keeper_->waiting += log.size();
    keeper_->statements.push_back(std::move(log));
    ++keeper_->handed;
    changed_.notify_all();
  }
  give_up_if_it_stands_still();
}

void RunKeeping::begin() {
  auto snapshot = store::JournalSnapshot::take(options_.run.journal());
  if (!snapshot.ok()) return end(*keeper_, message_of(snapshot.status()));
  keeper_->snapshot.emplace(*std::move(snapshot));
  keeper_->begun = true;
  keeper_->handed = 1;
  keeper_->checkpoint = newest_;
  const absl::Status written =
      runs::write_next_leader(options_.run, {options_.keeper->value(), keeper_->address});
  if (!written.ok()) spdlog::warn("{}", message_of(written));
  changed_.notify_all();
}

// Gives up a keeper that copies the journal, if it does not get on. flush() judges one that is here.
void RunKeeping::give_up_if_it_stands_still() {
  if (!connected() || here()) return;
  if (time_left() <= time_left().zero()) {
    end(*keeper_, "it has not answered for " + in_seconds(options_.patience));
  } else if (keeper_->waiting > options_.most_waiting) {
    end(*keeper_, fmt::format("more than {} MB of changes came while it copied the journal",
                              options_.most_waiting >> 20));
  }
}

// How much longer a keeper that copies the journal may be silent.
std::chrono::steady_clock::duration RunKeeping::time_left() const {
  if (!keeper_->asked) return options_.patience;
  return keeper_->last_step + options_.patience - options_.now();
}

absl::Status RunKeeping::flush() {
  PACELINE_RETURN_IF_ERROR(options_.flush());
  if (!options_.keeper) return absl::OkStatus();
  look();
  std::unique_lock lock(mutex_);
  await_first(lock);
  say_who_keeps(wait_until_kept(lock));
  say_whether_it_fetches();
  return absl::OkStatus();
}

// Waits, only once, for a keeper to come and to be here. One that comes later begins at the next look(), and
// nothing waits for it until it is here.
void RunKeeping::await_first(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(waited_, true)) return;
  if (!changed_.wait_for(lock, options_.first_patience, [this] { return connected(); })) return;
  const auto latest = options_.now() + options_.copy_patience;
  while (connected() && !here() && options_.now() < latest) {
    if (!keeper_->begun) {
      begin();
      continue;
    }
    changed_.wait_for(lock, std::min(time_left(), latest - options_.now()));
    give_up_if_it_stands_still();
  }
}

// Waits until the keeper, if it is here, has everything that was handed on. False if none is here.
bool RunKeeping::wait_until_kept(std::unique_lock<std::mutex>& lock) {
  std::int64_t kept = -1;
  std::chrono::steady_clock::time_point until;
  while (here() && keeper_->kept != keeper_->handed) {
    if (std::exchange(kept, keeper_->kept) != keeper_->kept) until = options_.now() + options_.patience;
    const auto left = until - options_.now();
    if (left > left.zero()) {
      changed_.wait_for(lock, left);
    } else {
      end(*keeper_, "it has not answered for " + in_seconds(options_.patience));
    }
  }
  return here();
}

void RunKeeping::say_who_keeps(bool kept) {
  const Said said = kept ? Said::kKept : connected() ? Said::kCopied : Said::kNotKept;
  // A keeper that comes and goes is not worth a line each time.
  if (said == said_ || (said == Said::kCopied && said_ == Said::kNotKept)) return;
  said_ = said;
  if (kept) return options_.news(fmt::format("host {} keeps a copy of the run again", *options_.keeper));
  if (said == Said::kCopied) {
    return options_.news(fmt::format(
        "host {} does not keep a copy of the run yet, because copying the journal takes long: if this host "
        "is lost before that, everything that the run does from here on is lost too",
        *options_.keeper));
  }
  options_.news(fmt::format(
      "host {} does not keep a copy of the run{}: if this host is lost now, everything that the run "
      "does from here on is lost too",
      *options_.keeper, trouble_.empty() ? "" : " (" + trouble_ + ")"));
}

// A single checkpoint that cannot be fetched may have been replaced by the next one.
void RunKeeping::say_whether_it_fetches() {
  const bool fetches = said_not_fetched_ ? failed_fetches_ == 0 : failed_fetches_ < 2;
  if (fetches != said_not_fetched_) return;
  said_not_fetched_ = !fetches;
  options_.news(
      said_not_fetched_
          ? fmt::format(
                "host {} cannot fetch the checkpoints of the run ({}): if this host is lost now, what "
                "was trained since the last one that it has is lost too",
                *options_.keeper, not_fetched_)
          : fmt::format("host {} has the newest checkpoint of the run again", *options_.keeper));
}

void RunKeeping::counted(const std::string& dir, const std::vector<std::string>& files) {
  wire::CheckpointToKeep checkpoint;
  checkpoint.set_dir(dir);
  checkpoint.mutable_files()->Add(files.begin(), files.end());
  checkpoint.set_identity(store::checkpoint_identity(dir).value_or(0));
  const std::lock_guard lock(mutex_);
  newest_ = checkpoint;
  awaited_since_.reset();
  if (keeper_ != nullptr) keeper_->checkpoint = std::move(checkpoint);
  changed_.notify_all();
}

bool RunKeeping::awaits_copy() {
  const std::lock_guard lock(mutex_);
  if (!options_.keeper || !newest_) return false;
  if (connected() && keeper_->fetched.dir() == newest_->dir()) return false;
  const auto now = options_.now();
  if (!awaited_since_) awaited_since_ = now;
  if (!connected()) return now < *awaited_since_ + options_.first_patience;
  if (!here()) return now < *awaited_since_ + options_.copy_patience;
  return now < std::max(*awaited_since_, keeper_->last_step) + options_.patience;
}

void RunKeeping::over() {
  if (!options_.keeper) return;
  look();
  std::unique_lock lock(mutex_);
  if (!connected() || !keeper_->begun) return;
  keeper_->over = true;
  ++keeper_->handed;
  changed_.notify_all();
  changed_.wait_for(lock, options_.patience,
                    [this] { return !connected() || keeper_->kept == keeper_->handed; });
}

std::string RunKeeping::next_leader() const {
  const std::lock_guard lock(mutex_);
  return connected() && keeper_->kept > 0 ? keeper_->address : "";
}

// ---- A keeper's call ----

absl::StatusOr<wire::RunToKeep> RunKeeping::run_to_keep() const {
  wire::RunToKeep run;
  run.set_name(options_.run.root.filename().string());
  PACELINE_ASSIGN_OR_RETURN(const std::string job, store::read_file(options_.run.job(), kMostText));
  run.set_job_toml(job);
  run.set_program_json(text_if_there(options_.run.program()));
  run.set_origin_json(text_if_there(runs::origin_file(options_.run)));
  PACELINE_ASSIGN_OR_RETURN(const runs::Leader leader, runs::read_leader(options_.run));
  run.set_led_by(leader.host);
  run.set_leader(leader.address);
  if (const std::size_t bytes = run.ByteSizeLong(); bytes > rpc::kLongestFrame - kOthers) {
    return absl::ResourceExhaustedError(
        fmt::format("its job.toml and program.json have {:.1f} MB, and a message may have {} MB",
                    static_cast<double>(bytes) / (1 << 20), rpc::kLongestFrame >> 20));
  }
  const std::lock_guard lock(mutex_);
  if (newest_) *run.mutable_newest() = *newest_;
  return run;
}

absl::Status RunKeeping::serve(Call& call) {
  wire::KeeperMessage hello;
  if (!call.read(hello) || !hello.has_keep())
    return absl::InvalidArgumentError("who keeps a run says so first");
  if (!options_.keeper || HostRank(hello.keep().host()) != *options_.keeper)
    return absl::FailedPreconditionError("another host keeps this run");
  const auto keeper = std::make_shared<Keeper>(Keeper{.address = hello.keep().address(), .call = &call});
  {
    const std::lock_guard lock(mutex_);
    if (keeper_ != nullptr) end(*keeper_, "");
    keeper_ = keeper;
    changed_.notify_all();
  }
  std::jthread answers([&] { hear(call, *keeper); });
  const absl::Status status = tell(call, *keeper);
  {
    const std::lock_guard lock(mutex_);
    end(*keeper, status.ok() ? "" : message_of(status));
  }
  answers.join();
  return status;
}

// Hangs up on it, whatever its threads are waiting for.
void RunKeeping::end(Keeper& keeper, const std::string& trouble) {
  if (std::exchange(keeper.gone, true)) return;
  if (!trouble.empty()) trouble_ = trouble;
  keeper.snapshot.reset();
  keeper.call->cancel();
  changed_.notify_all();
}

// False if the keeper has been given up.
bool RunKeeping::step(Keeper& keeper, bool asked) {
  const std::lock_guard lock(mutex_);
  keeper.asked = asked;
  keeper.last_step = options_.now();
  return !keeper.gone;
}

void RunKeeping::hear(Call& call, Keeper& keeper) {
  std::string trouble;
  for (wire::KeeperMessage answer; call.read(answer);) {
    const std::lock_guard lock(mutex_);
    keeper.last_step = options_.now();
    if (answer.has_fetching() || answer.has_fetched()) {
      if (answer.has_fetched()) {
        keeper.fetched = answer.fetched();
        const std::string& error = answer.fetched().error();
        failed_fetches_ = error.empty() ? 0 : failed_fetches_ + 1;
        not_fetched_ =
            fmt::format("{}: {}", store::printable(fs::path(answer.fetched().dir()).filename().string()),
                        store::printable(error));
      }
      continue;
    }
    if (answer.has_trouble()) trouble = store::printable(answer.trouble());
    if (!answer.has_kept() || answer.kept() > keeper.handed) break;
    trouble_.clear();
    keeper.kept = std::max(keeper.kept, answer.kept());
    keeper.here = keeper.here || keeper.handed - keeper.kept <= kNearlyAll;
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  end(keeper, trouble);
}

absl::Status RunKeeping::tell(Call& call, Keeper& keeper) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return keeper.begun || keeper.gone; });
  if (keeper.gone) return absl::OkStatus();
  std::optional<store::JournalSnapshot> snapshot = std::exchange(keeper.snapshot, std::nullopt);
  lock.unlock();
  PACELINE_RETURN_IF_ERROR(send_journal(call, keeper, *std::move(snapshot)));
  send_changes(call, keeper);
  return absl::OkStatus();
}

absl::Status RunKeeping::send_journal(Call& call, Keeper& keeper, store::JournalSnapshot snapshot) {
  wire::KeepOrder order;
  PACELINE_ASSIGN_OR_RETURN(*order.mutable_run(), run_to_keep());
  if (!call.write(order)) return absl::OkStatus();
  const PassingFile file(store::passing_snapshot(options_.run.journal(), ++passed_));
  PACELINE_RETURN_IF_ERROR(std::move(snapshot).write(file.path(), [&] { return step(keeper, false); }));
  bool sent = step(keeper, true);
  const auto send = [&](std::string& piece) {
    order.set_journal(piece);
    return sent = call.write(order) && step(keeper, true);
  };
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t crc,
                            store::read_pieces(file.path(), wire::kPieceBytes, send));
  if (!sent) return absl::OkStatus();  // not all pieces were
  order.set_journal_whole(crc);
  order.set_number(1);
  call.write(order);
  return absl::OkStatus();
}

void RunKeeping::send_changes(Call& call, Keeper& keeper) {
  std::int64_t number = 1;
  for (bool sent = true; sent;) {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return keeper.gone || !keeper.statements.empty() || keeper.checkpoint || keeper.over; });
    if (keeper.gone) return;
    wire::KeepOrder order;
    if (!keeper.statements.empty()) {
      const std::string statements = std::move(keeper.statements.front());
      keeper.statements.pop_front();
      keeper.waiting -= statements.size();
      lock.unlock();
      ++number;
      for (std::size_t at = 0; sent && at < statements.size(); at += wire::kPieceBytes) {
        order.set_statements(statements.substr(at, wire::kPieceBytes));
        order.set_number(at + wire::kPieceBytes >= statements.size() ? number : 0);
        sent = call.write(order);
      }
    } else if (keeper.checkpoint) {
      *order.mutable_checkpoint() = *std::exchange(keeper.checkpoint, std::nullopt);
      lock.unlock();
      sent = call.write(order);
    } else {
      keeper.over = false;
      lock.unlock();
      order.set_over(true);
      order.set_number(++number);
      sent = call.write(order);
    }
  }
}

}  // namespace paceline::coordinator_process
