#include "paceline/parameters/cuda/card_tensors.h"

#include <string_view>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/cuda/pieces.h"
#include "paceline/parameters/cuda/places.h"

namespace paceline::cuda {

absl::StatusOr<CardTensors> CardTensors::create(std::shared_ptr<Card> card, const CardStream& stream,
                                                CardKernels& kernels, const ps::StepPlan& plan) {
  CardTensors tensors(stream, kernels, plan);
  PACELINE_RETURN_IF_ERROR(tensors.make(std::move(card)));
  return tensors;
}

absl::Status CardTensors::make(std::shared_ptr<Card> card) {
  const TensorTables tables = tensors_of(*plan_);
  const std::size_t blocks = tables.blocks.size();
  Places places;
  const std::size_t pieces = places.add<Piece>(tables.pieces.size());
  const std::size_t tensors = places.add<TensorArgument>(tables.tensors.size());
  const std::size_t ranges = places.add<SquaresBlock>(blocks);
  const std::size_t member = places.add<MemberArgument>(1);
  const std::size_t lanes = places.add<double>(blocks * static_cast<std::size_t>(ps::kSquaresLanes));
  const std::size_t of_weights = places.add<double>(blocks);
  const std::size_t of_step = places.add<double>(blocks);
  const std::size_t factors = places.add<float>(tables.tensors.size());
  const std::size_t row_factors = places.add<float>(static_cast<std::size_t>(tables.row_count));
  const std::size_t sums = places.add<double>(static_cast<std::size_t>(tables.sum_count));
  const std::size_t means = places.add<double>(static_cast<std::size_t>(tables.column_count));
  PACELINE_ASSIGN_OR_RETURN(tables_, CardMemory::create(std::move(card), places.bytes()));
  const auto at = [this](std::size_t place) { return tables_.address() + place; };
  const auto upload = [&](std::size_t place, const auto& values) {
    if (values.empty()) return absl::OkStatus();
    return stream_->upload(at(place), values.data(), values.size() * sizeof(values[0]));
  };
  PACELINE_RETURN_IF_ERROR(upload(pieces, tables.pieces));
  PACELINE_RETURN_IF_ERROR(upload(tensors, tables.tensors));
  PACELINE_RETURN_IF_ERROR(upload(ranges, tables.blocks));
  member_ = at(member);
  all_.update.pieces = reinterpret_cast<const Piece*>(at(pieces));
  all_.update.piece_count = static_cast<std::int32_t>(tables.pieces.size());
  all_.tensors = reinterpret_cast<const TensorArgument*>(at(tensors));
  all_.tensor_count = static_cast<std::int32_t>(tables.tensors.size());
  all_.weight_squares = weight_squares_ = reinterpret_cast<double*>(at(of_weights));
  all_.step_squares = step_squares_ = reinterpret_cast<double*>(at(of_step));
  all_.factors = reinterpret_cast<float*>(at(factors));
  all_.row_factors = reinterpret_cast<float*>(at(row_factors));
  all_.sums = reinterpret_cast<double*>(at(sums));
  all_.means = reinterpret_cast<double*>(at(means));
  all_.row_count = tables.row_count;
  all_.sum_count = tables.sum_count;
  all_.column_count = tables.column_count;
  squares_.members = reinterpret_cast<const MemberArgument*>(member_);
  squares_.member_count = 1;
  squares_.blocks = reinterpret_cast<const SquaresBlock*>(at(ranges));
  squares_.block_count = static_cast<std::int32_t>(blocks);
  squares_.lanes = reinterpret_cast<double*>(at(lanes));
  return absl::OkStatus();
}

absl::Status CardTensors::find_squares(const float* values, double* squares) {
  const MemberArgument member{values, 1.0f, 0.0f};
  PACELINE_RETURN_IF_ERROR(stream_->upload(member_, &member, sizeof member));
  squares_.squares = squares;
  PACELINE_RETURN_IF_ERROR(
      kernels_->launch(kSquaresLanesKernel, squares_.block_count * ps::kSquaresLanes, squares_));
  return kernels_->launch(kSquaresBlocksKernel, squares_.block_count, squares_);
}

absl::Status CardTensors::step(const UpdateArguments& update) {
  TensorArguments all = all_;
  all.update = update;
  all.update.pieces = all_.update.pieces;
  all.update.piece_count = all_.update.piece_count;
  for (const char* const name : tensor_kernels(plan_->optimizer.kind)) {
    if (std::string_view(name) != kSquaresLanesKernel) {
      PACELINE_RETURN_IF_ERROR(kernels_->launch_pieces(name, all.update.piece_count, all));
      continue;
    }
    PACELINE_RETURN_IF_ERROR(find_squares(update.weights, weight_squares_));
    PACELINE_RETURN_IF_ERROR(find_squares(update.next, step_squares_));
  }
  return absl::OkStatus();
}

}  // namespace paceline::cuda
