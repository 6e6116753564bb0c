#include "paceline/records/store/checkpoint_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/base/status_macros.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::int64_t kCheckpointFormat = 1;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;
// This format has 5: document, controller, ledger, open, range. Another one may have more, and is to be known.
constexpr std::size_t kCheckpointDepth = 16;
constexpr const char* kDocumentChecksum = "crc32";

// A replica's name that is not UTF-8 must not prevent the checkpoint: such a replica comes back as a new one.
std::string dump(const json& document) {
  return document.dump(1, ' ', false, json::error_handler_t::replace);
}

std::string crc_text_of(json document) {
  document.erase(kDocumentChecksum);
  const std::string text = dump(document);
  return fmt::format("{:08x}", crc32_after(text.data(), text.size(), 0));
}

absl::Status check_frame(const json& document) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t format, whole_number_of(document, "format"));
  // Every format has it, so that damage does not look like another format.
  PACELINE_ASSIGN_OR_RETURN(const json* checksum, member_of(document, kDocumentChecksum));
  if (*checksum != crc_text_of(document))
    return absl::DataLossError("the checksum is not the one written in it");
  if (format != kCheckpointFormat)
    return absl::FailedPreconditionError("written by another version of Paceline; use that one");
  return absl::OkStatus();
}

absl::StatusOr<CheckpointState> state_from(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, kCheckpointDepth));
  PACELINE_RETURN_IF_ERROR(check_frame(document));
  CheckpointState state;
  PACELINE_ASSIGN_OR_RETURN(const json* controller, member_of(document, "controller"));
  PACELINE_ASSIGN_OR_RETURN(state.controller, controller_state_from(*controller));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t elapsed, whole_number_of(document, "elapsed_ns"));
  PACELINE_ASSIGN_OR_RETURN(state.samples, whole_number_of(document, "samples"));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t shards, whole_number_of(document, "shards"));
  if (shards < 1 || shards > kMaxShards) return absl::DataLossError("'shards' is out of range");
  if (state.samples != committed_samples(state.controller))
    return absl::DataLossError("'samples' and 'ledger' differ");
  state.elapsed = Duration(elapsed);
  state.shards = static_cast<int>(shards);
  return state;
}

}  // namespace

std::string to_text(const CheckpointState& state) {
  json document = {{"format", kCheckpointFormat},
                   {"controller", to_json(state.controller)},
                   {"elapsed_ns", state.elapsed.count()},
                   {"samples", state.samples},
                   {"shards", state.shards}};
  document[kDocumentChecksum] = crc_text_of(document);
  return dump(document) + '\n';
}

absl::StatusOr<CheckpointState> read_checkpoint_state(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  auto state = state_from(text);
  if (state.ok()) return state;
  const char* const damaged = absl::IsFailedPrecondition(state.status()) ? "" : "damaged: ";
  return absl::Status(state.status().code(),
                      fmt::format("{}: {}{}", path.string(), damaged, std::string(state.status().message())));
}

}  // namespace paceline::store
