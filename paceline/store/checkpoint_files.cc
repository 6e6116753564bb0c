#include "paceline/store/checkpoint_files.h"

#include <system_error>
#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::store {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<FileSink>> FolderFiles::create(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(folder_ / name));
  return std::make_unique<AtomicFile>(std::move(file));
}

absl::StatusOr<std::vector<std::string>> FolderFiles::names() {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder_, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) return io_error(folder_, "read", error.value());
  return names;
}

}  // namespace paceline::store
