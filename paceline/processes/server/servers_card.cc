#include "paceline/processes/server/servers_card.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/cuda/card_stepper.h"

namespace paceline::server {

absl::StatusOr<std::unique_ptr<ServersCard>> ServersCard::open(const std::string& uuid,
                                                               std::int64_t gradient_floats) {
  PACELINE_ASSIGN_OR_RETURN(auto driver, cuda::Driver::load(cuda::Driver::library_of_environment()));
  PACELINE_ASSIGN_OR_RETURN(auto card, cuda::Card::open(std::move(driver), uuid));
  PACELINE_ASSIGN_OR_RETURN(auto service, ipc::DescriptorService::start());
  return std::unique_ptr<ServersCard>(new ServersCard(std::move(card), std::move(service), gradient_floats));
}

absl::StatusOr<std::unique_ptr<ps::Shard>> ServersCard::make_shard(ps::Layout layout,
                                                                   const config::JobConfig& job, int readers,
                                                                   int kept) {
  const std::int64_t floats = ps::Shard::board_floats(layout, job.look_ahead);
  auto plan =
      std::make_unique<const ps::StepPlan>(ps::StepPlan::of(std::move(layout), job.optimizer, job.groups));
  PACELINE_ASSIGN_OR_RETURN(auto stepper, cuda::CardStepper::create(card_, *plan));
  // The one shard of its job, so its name is known to all.
  PACELINE_ASSIGN_OR_RETURN(
      auto board,
      memory::WeightWriter::create(floats, readers, kept,
                                   std::make_unique<cuda::CardBuffers>(card_, *service_, "board/0", floats)));
  return std::make_unique<ps::Shard>(std::move(plan), std::move(board), std::move(stepper));
}

}  // namespace paceline::server
