#include "paceline/records/store/mark_file.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/files.h"

namespace paceline::store {

namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> random_text() {
  std::array<std::uint64_t, 2> words{};
  if (getrandom(words.data(), sizeof words, 0) != sizeof words)
    return absl::UnavailableError("the system has no randomness to give");
  return fmt::format("{:016x}{:016x}\n", words[0], words[1]);
}

}  // namespace

absl::StatusOr<MarkFile> MarkFile::leave(const fs::path& file) {
  PACELINE_ASSIGN_OR_RETURN(std::string text, random_text());
  PACELINE_RETURN_IF_ERROR(atomic_write(file, text));
  return MarkFile(file, std::move(text));
}

MarkFile::MarkFile(MarkFile&& other) noexcept
    : file_(std::exchange(other.file_, {})), text_(std::move(other.text_)) {}

MarkFile::~MarkFile() {
  if (!file_.empty() && stands()) ::unlink(file_.c_str());
}

bool MarkFile::stands() const {
  const auto found = read_file(file_, kLongestMark);
  if (!found.ok()) return !absl::IsNotFound(found.status());
  return *found == text_;
}

}  // namespace paceline::store
