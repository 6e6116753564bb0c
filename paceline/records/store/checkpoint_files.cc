#include "paceline/records/store/checkpoint_files.h"

#include <utility>

#include "paceline/base/status_macros.h"

namespace paceline::store {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<FileSink>> FolderFiles::create(const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(folder_ / name));
  return std::make_unique<AtomicFile>(std::move(file));
}

}  // namespace paceline::store
