#include "paceline/tools/cli/card_settings.h"

#include <optional>
#include <variant>

#include "paceline/base/status_macros.h"
#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/card_memory.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/server_parts.h"

namespace paceline::cli {

absl::StatusOr<std::string> with_card_settings(const std::string& job_toml, const std::string& file,
                                               const program::Model& model) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, file));
  std::optional<std::string> setting;
  if (job.parallel.to_be_planned) {
    setting = config::card_memory_setting(job, model.free_memory);
  } else if (model.layout.narrow() == 0) {  // weights of bfloat16 have no parts on several cards
    setting = config::servers_setting(job, model.cards);
  }
  return setting ? config::resolve_job(job_toml, file, {*setting}) : job_toml;
}

absl::StatusOr<std::string> with_card_settings(const std::string& job_toml, const std::string& file,
                                               const std::string& said) {
  if (said.empty()) return job_toml;
  PACELINE_ASSIGN_OR_RETURN(const auto answer, program::parse_answer(said));
  const auto* model = std::get_if<program::Model>(&answer);
  return model == nullptr ? job_toml : with_card_settings(job_toml, file, *model);
}

}  // namespace paceline::cli
