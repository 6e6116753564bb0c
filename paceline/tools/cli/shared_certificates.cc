#include "paceline/tools/cli/shared_certificates.h"

#include <signal.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/unfinished_run.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/tools/cli/waiting.h"
#include "paceline/transport/security/certificates.h"
#include "paceline/transport/security/token.h"

namespace paceline::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostPathBytes = 1 << 16;
constexpr std::chrono::milliseconds kBetweenAnswers{200};
constexpr char kQuestion[] = "question-";
constexpr char kAnswer[] = "answer-";

absl::StatusOr<std::string> new_name() {
  PACELINE_ASSIGN_OR_RETURN(const std::string token, security::make_token());
  return token.substr(0, 16);
}

absl::Status make_private(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("{}: {}", folder.string(), error.message()));
}

// Another host may write or remove files there meanwhile.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    found.push_back(entry->path());
  return found;
}

}  // namespace

SharedCertificates::SharedCertificates(fs::path runs_dir, const launch::Tasks& tasks, bool first)
    : runs_dir_(std::move(runs_dir)),
      tasks_(tasks),
      first_(first),
      meeting_(runs_dir_ / (".tasks-" + tasks.name)) {}

SharedCertificates::~SharedCertificates() {
  std::error_code ignored;
  if (first_) {
    answers_ = {};
    fs::remove_all(meeting_, ignored);
    if (!certificates_.empty() && !needed()) fs::remove_all(certificates_, ignored);
  } else if (!question_.empty()) {
    fs::remove(meeting_ / (kQuestion + question_), ignored);
    fs::remove(meeting_ / (kAnswer + question_), ignored);
    fs::remove(meeting_, ignored);  // unless others use it
  }
}

absl::StatusOr<std::string> SharedCertificates::folder_of_job(const std::string& job) {
  return first_ ? make(job) : ask();
}

absl::StatusOr<std::string> SharedCertificates::make(const std::string& job) {
  PACELINE_RETURN_IF_ERROR(make_private(meeting_));
  std::error_code ignored;
  // A killed start may have left them. A host of this start asks again.
  for (const fs::path& old : entries_of(meeting_)) fs::remove_all(old, ignored);
  PACELINE_ASSIGN_OR_RETURN(const std::string name, new_name());
  certificates_ = runs_dir_ / (".certs-" + name);
  PACELINE_ASSIGN_OR_RETURN(const auto made, security::make_certificates({.dir = certificates_, .job = job}));
  answers_ = std::jthread([this, folder = made.of_job.string()](const std::stop_token& end) {
    sigset_t all;  // signals are the other threads'
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (!end.stop_requested()) {
      answer_questions(folder);
      std::this_thread::sleep_for(kBetweenAnswers);
    }
  });
  return made.of_job.string();
}

void SharedCertificates::answer_questions(const std::string& folder_of_job) const {
  for (const fs::path& file : entries_of(meeting_)) {
    const std::string name = file.filename().string();
    if (!name.starts_with(kQuestion)) continue;
    const fs::path answer = meeting_ / (kAnswer + name.substr(sizeof(kQuestion) - 1));
    std::error_code ignored;
    // If it cannot be written now, it is tried again.
    if (!fs::exists(answer, ignored)) store::atomic_write(answer, folder_of_job + "\n").IgnoreError();
  }
}

absl::StatusOr<std::string> SharedCertificates::ask() {
  PACELINE_ASSIGN_OR_RETURN(question_, new_name());
  const fs::path question = meeting_ / (kQuestion + question_), answer = meeting_ / (kAnswer + question_);
  const std::string what = fmt::format(
      "the first of the {} tasks of {}, which answers in {}: all hosts need to share that folder, or the "
      "certificates of `paceline certs` and --set network.certs=DIR",
      tasks_.count, tasks_.starter, meeting_.string());
  return wait_for<std::string>(what, [&]() -> absl::StatusOr<std::optional<std::string>> {
    // A shared folder's names may be remembered otherwise.
    entries_of(meeting_);
    std::error_code ignored;
    if (!fs::exists(question, ignored)) {
      PACELINE_RETURN_IF_ERROR(make_private(meeting_));
      // The first host may remove the folder's files just now, and the next look writes it again.
      store::atomic_write(question, "").IgnoreError();
    }
    const auto text = store::read_file(answer, kMostPathBytes);
    if (!text.ok()) return std::nullopt;
    return text->substr(0, text->find('\n'));
  });
}

bool SharedCertificates::needed() const {
  for (const fs::path& folder : entries_of(runs_dir_)) {
    if (!store::find_run(folder).ok()) continue;
    const auto text = runs::read_recorded_job(store::RunPaths{folder});
    if (!text.ok()) continue;
    const auto job = config::parse_job(*text, "job.toml");
    if (job.ok() && fs::path(job->reach.certs).parent_path() == certificates_)
      return !runs::is_over(folder, *job);
  }
  return false;
}

}  // namespace paceline::cli
