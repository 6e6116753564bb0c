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
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::coordinator_process {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kMostText = 64 << 20;

std::string text_if_there(const fs::path& file) { return store::read_file(file, kMostText).value_or(""); }

// Snapshots under way are written to files with this in their names.
constexpr const char* kPassing = ".to-keep-";

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

// Removes the files that a killed coordinator left.
void remove_passing_files(const store::RunPaths& run) {
  for (const std::string& name : store::names_in(run.root).value_or(std::vector<std::string>())) {
    if (name.find(kPassing) != std::string::npos) ::unlink((run.root / name).c_str());
  }
}

}  // namespace

RunKeeping::RunKeeping(Options options) : options_(std::move(options)) {
  if (options_.keeper) remove_passing_files(options_.run);
}

void RunKeeping::look() {
  if (!options_.keeper) return;
  std::string log = options_.take_log();
  const std::lock_guard lock(mutex_);
  if (!here()) return;
  if (!keeper_->begun) {
    auto snapshot = store::JournalSnapshot::take(options_.run.journal());
    if (!snapshot.ok()) {
      spdlog::warn("the journal cannot be given to the host that keeps the run: {}",
                   message_of(snapshot.status()));
      keeper_->gone = true;
    } else {
      keeper_->snapshot.emplace(*std::move(snapshot));
      keeper_->begun = true;
      keeper_->handed = 1;
      keeper_->checkpoint = newest_;
      const absl::Status written =
          runs::write_next_leader(options_.run, {options_.keeper->value(), keeper_->address});
      if (!written.ok()) spdlog::warn("{}", message_of(written));
    }
  } else if (!log.empty()) {
    keeper_->statements.push_back(std::move(log));
    ++keeper_->handed;
  }
  changed_.notify_all();
}

absl::Status RunKeeping::flush() {
  PACELINE_RETURN_IF_ERROR(options_.flush());
  if (!options_.keeper) return absl::OkStatus();
  look();
  std::unique_lock lock(mutex_);
  say_who_keeps(wait_until_kept(lock));
  say_whether_it_fetches();
  return absl::OkStatus();
}

// Waits until the keeper has everything that was handed on. False if it is given up or does not come.
bool RunKeeping::wait_until_kept(std::unique_lock<std::mutex>& lock) {
  const auto kept = [&] { return here() && keeper_->begun && keeper_->kept == keeper_->handed; };
  // Waits only once for a keeper that is not here. One that comes later begins at the next look().
  if (!here() && std::exchange(waited_, true)) return false;
  waited_ = true;
  std::optional<Awaited> awaited;
  while (!kept()) {
    if (here() && !keeper_->begun) {
      lock.unlock();
      look();
      lock.lock();
      continue;
    }
    if (changed_.wait_until(lock, patience_until(awaited)) == std::cv_status::no_timeout || kept()) continue;
    if (here()) keeper_->gone = true;
    changed_.notify_all();
    return false;
  }
  return true;
}

void RunKeeping::say_who_keeps(bool kept) {
  if (kept != said_nobody_) return;
  said_nobody_ = !kept;
  if (kept) return options_.news(fmt::format("host {} keeps a copy of the run again", *options_.keeper));
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
  awaited_.reset();
  if (keeper_ != nullptr) keeper_->checkpoint = std::move(checkpoint);
  changed_.notify_all();
}

bool RunKeeping::awaits_copy() {
  const std::lock_guard lock(mutex_);
  if (!options_.keeper || !newest_) return false;
  if (here() && keeper_->fetched.dir() == newest_->dir()) return false;
  return std::chrono::steady_clock::now() < patience_until(awaited_);
}

// The end of the patience. It begins anew each time that the keeper has done something.
std::chrono::steady_clock::time_point RunKeeping::patience_until(std::optional<Awaited>& awaited) const {
  const std::int64_t steps = here() ? keeper_->steps : -1;
  if (!awaited || awaited->steps != steps) {
    const auto patience = here() ? options_.patience : options_.first_patience;
    awaited = Awaited{steps, std::chrono::steady_clock::now() + patience};
  }
  return awaited->until;
}

void RunKeeping::over() {
  if (!options_.keeper) return;
  look();
  std::unique_lock lock(mutex_);
  if (!here() || !keeper_->begun) return;
  keeper_->over = true;
  ++keeper_->handed;
  changed_.notify_all();
  changed_.wait_for(lock, options_.patience, [this] { return !here() || keeper_->kept == keeper_->handed; });
}

std::string RunKeeping::next_leader() const {
  const std::lock_guard lock(mutex_);
  return here() && keeper_->kept > 0 ? keeper_->address : "";
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
  const auto keeper = std::make_shared<Keeper>(Keeper{.address = hello.keep().address()});
  {
    const std::lock_guard lock(mutex_);
    if (keeper_ != nullptr) keeper_->gone = true;
    keeper_ = keeper;
    changed_.notify_all();
  }
  std::jthread answers([&] { hear(call, *keeper); });
  const absl::Status status = tell(call, *keeper);
  lose(*keeper);
  call.cancel();
  answers.join();
  return status;
}

void RunKeeping::lose(Keeper& keeper) {
  const std::lock_guard lock(mutex_);
  keeper.gone = true;
  changed_.notify_all();
}

void RunKeeping::hear(Call& call, Keeper& keeper) {
  for (wire::KeeperMessage answer; call.read(answer);) {
    const std::lock_guard lock(mutex_);
    if (answer.has_fetching() || answer.has_fetched()) {
      if (answer.has_fetched()) {
        keeper.fetched = answer.fetched();
        const std::string& error = answer.fetched().error();
        failed_fetches_ = error.empty() ? 0 : failed_fetches_ + 1;
        not_fetched_ =
            fmt::format("{}: {}", store::printable(fs::path(answer.fetched().dir()).filename().string()),
                        store::printable(error));
      }
      ++keeper.steps;
      continue;
    }
    if (answer.has_trouble()) trouble_ = store::printable(answer.trouble());
    if (!answer.has_kept() || answer.kept() > keeper.handed) break;
    trouble_.clear();
    keeper.kept = std::max(keeper.kept, answer.kept());
    ++keeper.steps;
    changed_.notify_all();
  }
  lose(keeper);
}

absl::Status RunKeeping::tell(Call& call, Keeper& keeper) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return keeper.begun || keeper.gone; });
  if (keeper.gone) return absl::OkStatus();
  const store::JournalSnapshot snapshot = *std::exchange(keeper.snapshot, std::nullopt);
  lock.unlock();
  PACELINE_RETURN_IF_ERROR(send_journal(call, keeper, snapshot));
  send_changes(call, keeper);
  return absl::OkStatus();
}

absl::Status RunKeeping::send_journal(Call& call, Keeper& keeper, const store::JournalSnapshot& snapshot) {
  wire::KeepOrder order;
  PACELINE_ASSIGN_OR_RETURN(*order.mutable_run(), run_to_keep());
  if (!call.write(order)) return absl::OkStatus();
  const PassingFile file(fmt::format("{}{}{}", options_.run.journal().string(), kPassing, ++passed_));
  PACELINE_RETURN_IF_ERROR(snapshot.write(file.path()));
  const auto send = [&](std::string& piece) {
    order.set_journal(piece);
    const bool sent = call.write(order);
    const std::lock_guard lock(mutex_);
    ++keeper.steps;
    return sent && !keeper.gone;
  };
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t crc,
                            store::read_pieces(file.path(), wire::kPieceBytes, send));
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
