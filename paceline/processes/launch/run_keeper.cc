#include "paceline/processes/launch/run_keeper.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/peer/called_files.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/histories.h"
#include "paceline/records/store/lock_file.h"

namespace paceline::launch {

namespace fs = std::filesystem;

namespace {

// The pause between two tries, and the pause after a failure on this host, for example a full disk. Each try
// costs the leader a pass over its whole journal.
constexpr std::chrono::milliseconds kPause{300};
constexpr std::chrono::milliseconds kLongPause{10'000};
// The time between two signs of life.
constexpr std::chrono::seconds kSignEvery{1};
// A process that only checks whether a folder is free locks it for a moment.
constexpr std::chrono::milliseconds kLockPatience{200};

// True if another host's name of a run's or checkpoint's folder is a plain name that does not lead elsewhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

absl::Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return store::io_error(path, "made", error.value());
  fs::permissions(path, fs::perms::owner_all, error);
  return error ? store::io_error(path, "made", error.value()) : absl::OkStatus();
}

store::NamedCheckpoint named(const wire::CheckpointToKeep& checkpoint) {
  return {fs::path(checkpoint.dir()).filename().string(), checkpoint.identity()};
}

void erase(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

RunKeeper::RunKeeper(Options options) : options_(std::move(options)) {
  if (!options_.run.empty()) {
    run_.emplace(store::RunPaths{options_.run});
    const auto leader = runs::read_leader(*run_);
    if (leader.ok()) leader_ = *leader;
    whole_ = leader.ok();
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

RunKeeper::~RunKeeper() { stop(); }

void RunKeeper::keep(const std::string& coordinator, const rpc::Access& access) {
  const std::lock_guard lock(mutex_);
  coordinator_ = coordinator;
  access_ = access;
  wanted_ = true;
  changed_.notify_all();
}

void RunKeeper::leave() {
  const std::lock_guard lock(mutex_);
  whole_ = false;  // a copy from before is not valid either
  // Its mark stays if it was never kept here: a host that led the run finds its next leader by it.
  if (!std::exchange(wanted_, false)) return;
  if (run_) erase(run_->mark());
  changed_.notify_all();
}

std::optional<std::string> RunKeeper::run() const {
  const std::lock_guard lock(mutex_);
  if (!whole_) return std::nullopt;
  return run_->root.string();
}

std::optional<runs::Leader> RunKeeper::leader() const {
  const std::lock_guard lock(mutex_);
  return whole_ ? leader_ : std::nullopt;
}

void RunKeeper::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  journal_.reset();
  lock_.reset();
}

void RunKeeper::run_is_over() {
  stop();
  const std::lock_guard lock(mutex_);
  if (run_) erase(run_->mark());
  whole_ = false;
}

// ---- Its thread ----

void RunKeeper::work(const std::stop_token& stop) {
  while (true) {
    std::string coordinator;
    rpc::Access access;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return wanted_; });
      if (stop.stop_requested()) return;
      coordinator = coordinator_;
      access = access_;
    }
    // The leader reports why the copy ended, or the launcher does, if it does not reach the leader either.
    const auto stub = peer::coordinator_stub(coordinator, access);
    const bool could = keep_once(*stub, access, stop);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, could ? kPause : kLongPause, [] { return false; });
  }
}

// Keeps the run until the leader is gone or hangs up; false if this host failed.
bool RunKeeper::keep_once(peer::Stub& stub, const rpc::Access& access, const std::stop_token& stop) {
  grpc::ClientContext context;
  rpc::introduce(context, access);
  const auto stream = stub.Keep(&context);
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  std::mutex one_at_a_time;
  const Say say = [&](const wire::KeeperMessage& message) {
    const std::lock_guard lock(one_at_a_time);
    stream->Write(message);
  };
  std::jthread fetcher([&](const std::stop_token& done) { fetch(stub, access, done, say); });
  // The leader does not see work on the disk here, which takes minutes if the journal is large.
  std::atomic<bool> copies = false;
  std::jthread signs([&](const std::stop_token& done) { say_signs_of_life(copies, done, say); });
  wire::KeeperMessage message;
  message.mutable_keep()->set_host(options_.host.value());
  message.mutable_keep()->set_address(options_.address);
  say(message);
  absl::Status status;
  for (wire::KeepOrder order; status.ok() && stream->Read(&order);) {
    copies = order.has_journal() || order.has_journal_whole();
    status = take(order);
    copies = incoming_ != nullptr;
    if (status.ok() && order.number() == 0) continue;
    if (status.ok()) {
      message.set_kept(order.number());
    } else {
      message.set_trouble(std::string(status.message()));
    }
    say(message);
  }
  incoming_.reset();
  statements_.clear();
  for (std::jthread* helper : {&fetcher, &signs}) helper->request_stop();
  for (std::jthread* helper : {&fetcher, &signs}) helper->join();
  if (!status.ok()) {
    stream->WritesDone();
    for (wire::KeepOrder order; stream->Read(&order);) {  // until the leader has heard why
    }
  }
  stream->Finish();
  return status.ok();
}

void RunKeeper::say_signs_of_life(const std::atomic<bool>& copies, const std::stop_token& stop,
                                  const Say& say) {
  wire::KeeperMessage goes_on;
  goes_on.set_fetching(true);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, stop, kSignEvery, [&] { return stop.stop_requested(); })) {
    lock.unlock();
    if (copies) say(goes_on);
    lock.lock();
  }
}

absl::Status RunKeeper::take(const wire::KeepOrder& order) {
  switch (order.what_case()) {
    case wire::KeepOrder::kRun:
      return begin(order.run());
    case wire::KeepOrder::kJournal:
    case wire::KeepOrder::kJournalWhole:
      return take_journal(order);
    case wire::KeepOrder::kStatements: {
      if (!journal_) return absl::FailedPreconditionError("changes to a journal that is not here");
      statements_ += order.statements();
      return order.number() == 0 ? absl::OkStatus() : journal_->apply(std::exchange(statements_, {}));
    }
    case wire::KeepOrder::kCheckpoint: {
      const std::lock_guard lock(mutex_);
      to_fetch_ = order.checkpoint();
      changed_.notify_all();
      return absl::OkStatus();
    }
    case wire::KeepOrder::kOver: {
      const std::lock_guard lock(mutex_);
      if (run_) erase(run_->mark());
      whole_ = false;
      return absl::OkStatus();
    }
    default:
      return absl::InvalidArgumentError("an order that no keeper knows");
  }
}

// Begins a copy. The folder gets a mark, and counts, once the journal is whole.
absl::Status RunKeeper::begin(const wire::RunToKeep& run) {
  if (!is_plain_name(run.name())) return absl::InvalidArgumentError("the run's folder has no plain name");
  const store::RunPaths paths{options_.runs_dir / run.name()};
  journal_.reset();
  lock_.reset();
  for (const fs::path& folder : {paths.root, paths.checkpoints(), paths.logs()})
    PACELINE_RETURN_IF_ERROR(make_folder(folder));
  PACELINE_ASSIGN_OR_RETURN(lock_, store::lock_file(paths.lock(), kLockPatience));
  if (!lock_)
    return absl::UnavailableError(
        fmt::format("{} is in use there; if all hosts share that disk, set cluster.shared_folder = true",
                    paths.root.string()));
  store::remove_unfinished_copies(paths.journal());
  about_ = run;
  const auto job = config::parse_job(about_.job_toml(), "job.toml");
  const std::lock_guard lock(mutex_);
  kept_ = job.ok() ? static_cast<int>(job->checkpoints_kept) : store::kKeptCheckpoints;
  // An earlier copy of this run stays good until the new one is whole.
  if (run_ && run_->root == paths.root) return absl::OkStatus();
  run_ = paths;
  whole_ = false;
  return absl::OkStatus();
}

absl::Status RunKeeper::take_journal(const wire::KeepOrder& order) {
  if (about_.name().empty()) return absl::FailedPreconditionError("a journal of no run");
  const store::RunPaths paths{options_.runs_dir / about_.name()};
  if (!incoming_) {
    PACELINE_ASSIGN_OR_RETURN(auto file, store::AtomicFile::create(paths.journal()));
    incoming_ = std::make_unique<store::AtomicFile>(std::move(file));
    incoming_crc_ = 0;
  }
  if (order.has_journal()) {
    incoming_crc_ = store::crc32_after(order.journal().data(), order.journal().size(), incoming_crc_);
    return incoming_->write(order.journal().data(), order.journal().size());
  }
  if (order.journal_whole() != incoming_crc_)
    return absl::DataLossError("the journal did not come as it was sent");
  // The files here may be of another history of the run than its leader's.
  const auto newest = about_.has_newest() ? std::optional(named(about_.newest())) : std::nullopt;
  PACELINE_RETURN_IF_ERROR(store::leave_own_history(paths, incoming_->temporary(), newest));
  // The journal here stays whole until then: closing it merges its log.
  std::error_code error;
  if (fs::exists(paths.journal(), error)) store::JournalCopy::open(paths.journal()).status().IgnoreError();
  for (const char* end : {"-wal", "-shm"}) erase(paths.journal().string() + end);
  PACELINE_RETURN_IF_ERROR(incoming_->commit());
  incoming_.reset();
  PACELINE_ASSIGN_OR_RETURN(journal_, store::JournalCopy::open(paths.journal()));
  const auto write = [](const fs::path& file, const std::string& text) {
    return text.empty() ? absl::OkStatus() : store::atomic_write(file, text);
  };
  PACELINE_RETURN_IF_ERROR(write(paths.program(), about_.program_json()));
  PACELINE_RETURN_IF_ERROR(write(runs::origin_file(paths), about_.origin_json()));
  PACELINE_RETURN_IF_ERROR(write(paths.asked(), options_.asked));
  PACELINE_RETURN_IF_ERROR(runs::write_leader(paths, {about_.led_by(), about_.leader()}));
  PACELINE_RETURN_IF_ERROR(write(paths.job(), about_.job_toml()));
  PACELINE_RETURN_IF_ERROR(write(paths.mark(), fmt::format("kept by host {}\n", options_.host)));
  const std::lock_guard lock(mutex_);
  leader_ = runs::Leader{about_.led_by(), about_.leader()};
  whole_ = true;
  return absl::OkStatus();
}

// ---- Checkpoints ----

namespace {

// Reports each second that more has come.
class ToldSink final : public store::FileSink {
 public:
  ToldSink(store::FileSink& to, std::function<void()> tell) : to_(to), tell_(std::move(tell)) {}
  absl::Status write(const void* bytes, std::size_t size) override {
    if (const auto now = std::chrono::steady_clock::now(); now >= next_) {
      next_ = now + kSignEvery;
      tell_();
    }
    return to_.write(bytes, size);
  }
  absl::Status commit() override { return to_.commit(); }

 private:
  store::FileSink& to_;
  const std::function<void()> tell_;
  std::chrono::steady_clock::time_point next_{};
};

absl::Status copy_files(const wire::CheckpointToKeep& checkpoint, peer::CalledFiles& files,
                        const fs::path& folder, const std::function<void()>& tell) {
  for (const std::string& file : checkpoint.files()) {
    if (!is_plain_name(file)) return absl::InvalidArgumentError("a file without a plain name");
    PACELINE_ASSIGN_OR_RETURN(auto to, store::AtomicFile::create(folder / file));
    ToldSink told(to, tell);
    PACELINE_RETURN_IF_ERROR(files.copy(file, told));
  }
  return absl::OkStatus();
}

}  // namespace

void RunKeeper::fetch(peer::Stub& stub, const rpc::Access& access, const std::stop_token& stop,
                      const Say& say) {
  while (true) {
    wire::CheckpointToKeep checkpoint;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return to_fetch_.has_value(); });
      if (stop.stop_requested()) return;
      checkpoint = *std::exchange(to_fetch_, std::nullopt);
    }
    // A checkpoint may be impossible to get, because a newer one has replaced it or the disk is full; others
    // will follow.
    const absl::Status fetched = fetch(checkpoint, stub, access, stop, say);
    if (stop.stop_requested()) return;
    wire::KeeperMessage message;
    message.mutable_fetched()->set_dir(checkpoint.dir());
    message.mutable_fetched()->set_error(std::string(fetched.message()));
    say(message);
  }
}

absl::Status RunKeeper::fetch(const wire::CheckpointToKeep& checkpoint, peer::Stub& stub,
                              const rpc::Access& access, const std::stop_token& stop, const Say& say) const {
  std::optional<store::RunPaths> run;
  int kept = 0;
  {
    const std::lock_guard lock(mutex_);
    run = run_;
    kept = kept_;
  }
  if (!run) return absl::FailedPreconditionError("a checkpoint of no run");
  const store::NamedCheckpoint newest = named(checkpoint);
  PACELINE_ASSIGN_OR_RETURN(const bool here, store::make_way_for(run->root, newest));
  if (here) return absl::OkStatus();
  const fs::path folder = run->checkpoints();
  std::error_code error;
  const fs::path partial = folder / (newest.name + ".kept.partial");
  fs::remove_all(partial, error);
  PACELINE_RETURN_IF_ERROR(make_folder(partial));
  peer::CalledFiles files(stub, access, checkpoint.dir(),
                          {checkpoint.files().begin(), checkpoint.files().end()}, stop);
  const absl::Status copied = copy_files(checkpoint, files, partial, [&] {
    wire::KeeperMessage message;
    message.set_fetching(true);
    say(message);
  });
  if (!copied.ok()) {
    fs::remove_all(partial, error);
    return copied;
  }
  fs::rename(partial, folder / newest.name, error);
  if (error) return store::io_error(partial, "renamed", error.value());
  PACELINE_RETURN_IF_ERROR(store::sync_directory(folder));
  return store::remove_older_checkpoints(run->root, kept);
}

}  // namespace paceline::launch
